"""Ordinary user code, checked by mypy and pyright; nothing here is run."""

import evalframe

names: list[str] = evalframe.__all__
