"""Tests need no network, and have none."""

from tests.support.network import deny_network

deny_network()
