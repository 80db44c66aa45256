"""Adds up payments of customers; a line that no function can read becomes a dead letter, with its error.

python examples/dead_letters.py [LINE ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from windrow import OutputTag, Pipeline, from_collection
from windrow.failures import Failed
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow_runtime.local import LocalRunner

LINES = ["ann 30", "bob 5", "ann twenty", "bob -50", "ann 12"]


class Payment(NamedTuple):
    customer: str
    amount: int


class Account(NamedTuple):
    customer: str
    balance: int


class OverdrawnError(Exception):
    """A payment that would make a balance negative."""


def parse(line: str) -> Payment:
    customer, amount = line.split()
    return Payment(customer, int(amount))


class Balance(KeyedProcessFunction[str, Payment, Account]):
    """Emits the balance after each payment. What a refused payment has stored is taken back."""

    BALANCE = ValueStateDescriptor("balance", int)

    def process_element(self, value: Payment, context: KeyedProcessContext[str]) -> Iterable[Account]:
        state = context.get_state(self.BALANCE)
        balance = (state.value() or 0) + value.amount
        state.update(balance)
        if balance < 0:
            raise OverdrawnError(f"the balance would be {balance}")
        yield Account(value.customer, balance)


UNREAD = OutputTag[Failed[str]]("unread")
REFUSED = OutputTag[Failed[Payment | None]]("refused")


def build(lines: Iterable[str], accounts: CollectSink[Account], letters: CollectSink[str]) -> Pipeline:
    payments = from_collection(lines).map(parse, on_error=UNREAD, name="parse")
    balances = payments.key_by(lambda payment: payment.customer).process(Balance(), on_error=REFUSED, name="balance")
    unread = payments.get_side_output(UNREAD).map(lambda failed: f"{failed.step}: {failed.element!r}: {failed.error}")
    refused = balances.get_side_output(REFUSED).map(lambda failed: f"{failed.step}: {failed.element}: {failed.error}")
    return Pipeline("payments", balances.sink_to(accounts), unread.union(refused).sink_to(letters))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", metavar="LINE", nargs="*", help="a customer and an amount; by default some of both")
    lines: list[str] = parser.parse_args(arguments).lines
    accounts, letters = CollectSink[Account]("accounts"), CollectSink[str]("letters")
    result = LocalRunner().run(build(lines or LINES, accounts, letters))
    for account in result.collected(accounts):
        print(f"{account.customer} {account.balance}")
    for letter in sorted(result.collected(letters)):
        print(letter)


if __name__ == "__main__":
    main(sys.argv[1:])
