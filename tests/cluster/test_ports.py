"""Clusters of two checkouts never listen at the same ports."""

from __future__ import annotations

import os
import socket

import pytest
from ports import taken

CHOICE = range(10000 + os.getpid() % 4000, 15000, 40)


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """Ports that no other test has, whatever else runs here."""
    monkeypatch.setattr("ports.CHOICE", CHOICE)


def test_who_asks_while_another_has_ports_gets_others_and_again_the_same_later():
    with taken(1, 2) as first:
        with taken(1) as second:
            assert second != first
        with taken(1) as third:
            assert third == second
    assert first in CHOICE


def test_a_port_at_which_somebody_listens_is_passed_over():
    with taken(1) as first:
        pass
    with socket.create_server(("", first + 1)), taken(1) as other:
        assert other != first
    with taken(1) as again:
        assert again == first
