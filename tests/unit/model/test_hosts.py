"""Hosts: names with and without their domain are one, addresses are compared as addresses."""

import pytest

from nccldoctor.model.hosts import endpoint_address, host_order, is_same_host, short_host, why_unreachable


@pytest.mark.parametrize(
    ("host", "name"), [("n1.cluster.local", "n1"), ("n1", "n1"), ("10.0.0.7", "10.0.0.7"), ("fe80::1", "fe80::1")]
)
def test_one_name_for_a_host(host: str, name: str) -> None:
    assert short_host(host) == name


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("n1", "n1.cluster.local", True),
        ("N1", "n1", True),
        ("n1", "n2", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1", "FE80:0::1", True),
    ],
)
def test_two_spellings_of_a_host(one: str, other: str, same: bool) -> None:
    assert is_same_host(one, other) is same


def test_hosts_are_counted_as_people_do() -> None:
    assert sorted(["node10", "node2", "a", "10x"], key=host_order) == ["10x", "a", "node2", "node10"]


@pytest.mark.parametrize("text", ["10.0.0.1<4321>", "10.0.0.1", " 10.0.0.1<0>"])
def test_the_address_of_an_endpoint(text: str) -> None:
    assert endpoint_address(text) == "10.0.0.1"
    assert endpoint_address("[fe80:0::1]<4321>") == "fe80::1"


@pytest.mark.parametrize(
    ("endpoint", "from_other_hosts", "reason"),
    [
        ("169.254.3.77<41893>", False, "link-local"),
        ("198.18.0.1<41893>", False, "benchmark"),
        ("127.0.0.1<29500>", True, "loopback"),
        ("127.0.0.1<29500>", False, ""),
        ("172.17.0.1<4401>", True, "Docker"),
        ("172.17.4.9<4401>", True, ""),
        ("[fe80::1%ib0]<4401>", True, ""),
        ("10.0.0.4<4401>", True, ""),
        ("node3<4401>", True, ""),
    ],
)
def test_addresses_that_nobody_reaches(endpoint: str, from_other_hosts: bool, reason: str) -> None:
    why = why_unreachable(endpoint, from_other_hosts=from_other_hosts)
    assert (reason in why) if reason else not why
