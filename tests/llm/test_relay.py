"""The relay that the tests with a real server look at requests through."""

import socket
from urllib.parse import urlsplit

import pytest

from evalframe import testing


@pytest.fixture
def left_hanging(relay, is_let_go):
    """A function: how many of five clients that connect as a relay ends still wait after it."""

    def count(address):
        with relay(address) as opened:
            to = urlsplit(opened.base_url)
            clients = [
                socket.create_connection((to.hostname, to.port), timeout=1) for _ in range(5)
            ]
        hanging = sum(not is_let_go(client) for client in clients)
        for client in clients:
            client.close()
        return hanging

    return count


def test_connections_that_come_as_a_relay_ends_are_closed(left_hanging, resource_warnings):
    """Left to the garbage collector, they would fail a test far from here."""
    with testing.ChatServer() as server:
        address = server.base_url.removesuffix("/v1")
        hanging = any(left_hanging(address) for _ in range(10))

    assert (hanging, resource_warnings()) == (False, [])
