"""Declared joins say which fields of a pair make a result, so that engines can make results without any Python object.

A declared join is a function of a left and a right element, for ``apply`` of every join::

    orders.interval_join(payments).between(-HOUR, HOUR).apply(
        joins.into(Paid, joins.key(), joins.left(lambda order: order.id), joins.right(lambda payment: payment.sum))
    )
"""

from windrow.joins.declared_join import DeclaredJoin, JoinField
from windrow.joins.fields import into, key, left, left_or_none, right, right_or_none

__all__ = ["DeclaredJoin", "JoinField", "into", "key", "left", "left_or_none", "right", "right_or_none"]
