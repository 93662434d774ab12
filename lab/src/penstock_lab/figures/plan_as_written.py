"""A query that is run by its plan as written: no rule moves its negation, and no other plan takes its place.

The engine would choose one plan for both texts of Query 5. To compare its choice with those made by hand, these must stay.
"""

from __future__ import annotations

from penstock.api.query import Query
from penstock.api.session import Session
from penstock.optimizer.flatten_joins import flatten_joins
from penstock.optimizer.merge_projections import merge_projections
from penstock.optimizer.push_down_predicates import push_filters
from penstock.optimizer.reject_unsupported import reject
from penstock.plan.query_root import top
from penstock.sql import Select, bind, parse

RULES = (push_filters, flatten_joins, push_filters, merge_projections, reject)
"""Those that every plan needs; what stands above what, they leave alone."""


def register(session: Session, text: str, name: str) -> Query:
    """As `session.query`."""
    statement = bind(parse(text)[0], session.catalog)
    assert isinstance(statement, Select)
    plan = statement.query.root
    for rule in RULES:
        plan = rule(plan)
    return Query(session, session.engine.register(name, top(plan), keep=False), statement.query)
