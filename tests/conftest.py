"""What holds for the whole suite.

In CI (`CI=true`) a test that does not run is a test that failed: every skip, of a test or of
a whole file, becomes a failure, unless its reason is in ALLOWED_SKIPS. Elsewhere a skip is a
skip, so that the suite runs on a machine that lacks an optional package.

Hypothesis uses the same examples on every run in CI, and no deadline anywhere: a shared
machine's pauses are no finding.
"""

import contextlib
import gc
import os
import warnings

import pytest
from hypothesis import settings

from evalframe.testing import ChatServer

IN_CI = os.environ.get("CI", "").lower() == "true"

REAL_DATA = "takes its data from the evals wheel, which CI never downloads"
ALLOWED_SKIPS = frozenset({REAL_DATA})

settings.register_profile("ci", derandomize=True, database=None, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if IN_CI else "local")
if os.environ.get("EVALFRAME_FEW_EXAMPLES"):
    # For suites that repeat one that has run in full, such as on other versions.
    settings.register_profile("few", settings.get_profile("ci"), max_examples=20)
    settings.load_profile("few")


@pytest.fixture
def serve():
    """Start scripted servers, which end with the test: `serve(script, **options)`."""
    with contextlib.ExitStack() as stack:
        yield lambda script, **options: stack.enter_context(ChatServer(script, **options))


@pytest.fixture
def short_grace(monkeypatch):
    """Calls in flight have a tenth of a second, where the law is not how long they have."""
    for module in ("driver", "local"):
        monkeypatch.setattr(f"evalframe.engines.{module}.GRACE_S", 0.1)


@pytest.fixture
def is_let_go():
    """A function: whether the other side has closed a client's connection, or does so soon."""

    def closed(client):
        with contextlib.suppress(ConnectionError):
            try:
                return client.recv(1) == b""
            except TimeoutError:
                return False
        return True

    return closed


@pytest.fixture
def resource_warnings():
    """The warnings of things that were left open, all collected when it is called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def found():
            gc.collect()
            return [each for each in caught if each.category is ResourceWarning]

        yield found


def pytest_collection_modifyitems(items):
    """Tests on real data are the only ones that CI leaves out."""
    if IN_CI:
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(pytest.mark.skip(reason=REAL_DATA))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """A skipped test, by mark or from its body."""
    report = yield
    # An expected failure is reported as skipped too, and is none.
    if not hasattr(report, "wasxfail"):
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """A skipped file, by `importorskip` at its top."""
    report = yield
    _fail_if_skipped(report)
    return report


def _fail_if_skipped(report):
    if not (IN_CI and report.skipped):
        return
    path, line, message = report.longrepr
    reason = message.removeprefix("Skipped: ")
    if reason not in ALLOWED_SKIPS:
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped, and CI has to run it: {reason}"
