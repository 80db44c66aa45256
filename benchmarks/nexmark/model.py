"""The records of the streams."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Auction", "Bid", "Person", "SideInput"]


@dataclass(frozen=True, slots=True)
class Person:
    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


@dataclass(frozen=True, slots=True)
class Auction:
    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


@dataclass(frozen=True, slots=True)
class Bid:
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str


@dataclass(frozen=True, slots=True)
class SideInput:
    key: int
    value: str
