"""An inner join without time: orders with their customers, whichever of the two comes first, and however late.

python -m examples.classics.join_without_time

Both sides are tables that change. The result is the join of what they are now, at all times.
"""

from __future__ import annotations

from examples.classics.stage import Stage, stage
from headrace import operators as op
from headrace.pipeline import read_topic


def show(on: Stage, title: str) -> None:
    orders = read_topic(on.spark, "orders", schema="order_id INT, customer INT, item STRING")
    customers = read_topic(on.spark, "customers", schema="id INT, name STRING")
    joined = orders.transform(op.JoinTables(customers, on={"customer": "id"}, key="order_id", other_key="id"))
    print(title)
    for row in on.run("joined", joined, "order_id"):
        print(f"  order {row['order_id']}: {row['item']} for {row['name']}")


def main() -> None:
    with stage("join-without-time") as on:
        on.send("orders", [{"order_id": 1, "customer": 7, "item": "tea"}])
        on.send("customers", [{"id": 8, "name": "Bob"}, {"id": 7, "name": "Ann"}])
        show(on, "one order has a customer, and one customer has no order:")

        on.send("orders", [{"order_id": 2, "customer": 8, "item": "milk"}])
        on.send("customers", [{"id": 7, "name": "Ann Smith"}])
        show(on, "another order, and a customer has another name:")


if __name__ == "__main__":
    main()
