"""docs/orm.md, SQLAlchemy."""

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, close_all_sessions, declarative_base
from sqlalchemy.orm.exc import StaleDataError

from recipes import guards, raises, run, same, sql, test

Base = declarative_base()
engine = sa.create_engine("postgresql+psycopg2://")
statements = []
sa.event.listen(engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement))


class Order(Base):
    """The guard counts: SQLAlchemy names the version in WHERE only, and reads the new one back."""

    __tablename__ = "orders"
    id = sa.Column(sa.Integer, primary_key=True)
    state = sa.Column(sa.Text, nullable=False, default="created")
    note = sa.Column(sa.Text)
    version = sa.Column(sa.BigInteger, nullable=False, server_default="1", server_onupdate=sa.FetchedValue())
    __mapper_args__ = {"version_id_col": version, "version_id_generator": False}


class CountedOrder(Base):
    """SQLAlchemy counts."""

    __tablename__ = "counted_orders"
    id = sa.Column(sa.Integer, primary_key=True)
    note = sa.Column(sa.Text)
    version = sa.Column(sa.BigInteger, nullable=False)
    __mapper_args__ = {"version_id_col": version}


class UncheckedOrder(Base):
    """The version is a column like others."""

    __tablename__ = "unchecked_orders"
    id = sa.Column(sa.Integer, primary_key=True)
    note = sa.Column(sa.Text)
    version = sa.Column(sa.BigInteger, nullable=False, server_default="1")


def guard():
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order')"))


def sqlstate(error):
    return error.orig.pgcode


def saved(order):
    session = Session(engine)
    session.add(order)
    session.commit()
    return session


@test("the guard counts, and the object has the new version after a flush")
def _():
    order = Order(id=1)
    session = saved(order)
    order.note = "a"
    statements.clear()
    session.flush()
    assert "WHERE orders.id = %(orders_id)s AND orders.version = %(orders_version)s RETURNING orders.version" in statements[-1], statements
    same(sa.inspect(order).dict["version"], 2)
    order.note = "b"
    session.commit()
    same(sql("SELECT note, version FROM orders WHERE id = 1"), [("b", 3)])


@test("a stale object is StaleDataError")
def _():
    order = Order(id=2)
    session = saved(order)
    same(order.version, 1)
    sql("UPDATE orders SET note = 'other' WHERE id = 2")
    order.note = "mine"
    raises(StaleDataError, session.flush)
    session.rollback()
    same(sql("SELECT note, version FROM orders WHERE id = 2"), [("other", 2)])


@test("a counter of SQLAlchemy's own passes the guard")
def _():
    sql("SELECT idem.optimistic_enable('counted_orders')")
    order = CountedOrder(id=1)
    session = saved(order)
    order.note = "a"
    session.flush()
    order.note = "b"
    session.commit()
    same(order.version, 3)
    sql("UPDATE counted_orders SET note = 'other' WHERE id = 1")
    order.note = "mine"
    raises(StaleDataError, session.flush)


@test("without version_id_col the last write wins, and the object keeps the old version")
def _():
    sql("SELECT idem.optimistic_enable('unchecked_orders')")
    order = UncheckedOrder(id=1)
    session = saved(order)
    same(order.version, 1)
    sql("UPDATE unchecked_orders SET note = 'other' WHERE id = 1")
    order.note = "mine"
    session.flush()
    same(order.version, 1)
    session.refresh(order)
    same((order.note, order.version), ("mine", 3))


@test("query().update() leaves the version to the guard")
def _():
    session = saved(Order(id=3))
    session.query(Order).filter_by(id=3).update({"note": "bulk"}, synchronize_session=False)
    session.commit()
    same(session.get(Order, 3).version, 2)


@test("two state changes in one flush are one UPDATE: ID003")
def _():
    order = Order(id=4)
    session = saved(order)
    order.state = "paid"
    order.state = "shipped"
    error = raises(DBAPIError, session.flush)
    same(sqlstate(error), "ID003")
    assert 'from "created" to "shipped"' in str(error.orig)


@test("a flush after each state change makes both transitions")
def _():
    order = Order(id=5)
    session = saved(order)
    order.state = "paid"
    session.flush()
    order.state = "shipped"
    session.commit()
    same((order.state, order.version), ("shipped", 3))


@test("changed and changed back in one flush is no transition")
def _():
    order = Order(id=10)
    session = saved(order)
    order.state = "shipped"
    order.state = "created"
    session.commit()
    same(order.state, "created")


@test("the SQLSTATE is orig.pgcode; orig.diag has table and column")
def _():
    session = saved(Order(id=6))
    error = raises(DBAPIError, lambda: session.execute(sa.text("UPDATE orders SET version = 7 WHERE id = 6")))
    same((sqlstate(error), error.orig.diag.table_name), ("ID004", "orders"))
    session.rollback()
    error = raises(DBAPIError, lambda: session.execute(sa.text("UPDATE orders SET state = 'shipped' WHERE id = 6")))
    same((sqlstate(error), error.orig.diag.column_name), ("ID003", "state"))


@test("a fixture in another state: ID003; through the states it is inserted")
def _():
    session = Session(engine)
    session.add(Order(id=7, state="shipped"))
    same(sqlstate(raises(DBAPIError, session.flush)), "ID003")
    session.rollback()
    order = Order(id=7)
    session.add(order)
    for state in "paid", "shipped":
        session.flush()
        order.state = state
    session.commit()
    same(order.state, "shipped")


@test("a fixture while the machine is detached; attaching checks its states")
def _():
    close_all_sessions()  # an open transaction that has read the table would keep it from being altered

    def load(state):
        with Session(engine) as session, session.begin():
            session.execute(sa.text("SELECT idem.idem_machine_detach('orders', 'state')"))
            session.add(Order(id=8, state=state))
            session.flush()
            session.execute(sa.text("SELECT idem.idem_machine_attach('orders', 'state', 'order')"))

    same(sqlstate(raises(DBAPIError, lambda: load("no such state"))), "23514")
    load("shipped")
    same(sql("SELECT state FROM orders WHERE id = 8"), [("shipped",)])
    same(guards(), 2)


@test("a claim belongs to the session's transaction")
def _():
    claim = sa.select(sa.func.idem.idem_claim("sqlalchemy 1"))
    session = Session(engine)
    same(session.execute(claim).scalar_one(), True)
    session.rollback()
    same(session.execute(claim).scalar_one(), True)
    session.add(Order(id=9))
    session.commit()
    same(session.execute(claim).scalar_one(), False)
    session.rollback()


@test("idem_begin and idem_complete around the work")
def _():
    with Session(engine) as session, session.begin():
        ticket = session.execute(sa.text("SELECT outcome, fence FROM idem.idem_begin('sqlalchemy 2')")).one()
        same(ticket.outcome, "acquired")
        session.execute(
            sa.text("SELECT idem.idem_complete('sqlalchemy 2', CAST(:response AS jsonb), fence => :fence)"),
            {"response": '{"id": 9}', "fence": ticket.fence},
        )
    with Session(engine) as session:
        again = session.execute(sa.text("SELECT outcome, response FROM idem.idem_begin('sqlalchemy 2')")).one()
        same(tuple(again), ("completed", {"id": 9}))


@test("create_all and Alembic's autogenerate do not see idem's schema")
def _():
    Base.metadata.create_all(engine)
    same(guards(), 2)
    with engine.connect() as connection:
        same(compare_metadata(MigrationContext.configure(connection), Base.metadata), [])


@test("with include_schemas, autogenerate would drop idem's tables; include_name prevents it")
def _():
    def removed(**options):
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_schemas": True, **options})
            return {operation[1].schema for operation in compare_metadata(context, Base.metadata) if operation[0] == "remove_table"}

    same(removed(), {"idem"})
    same(removed(include_name=lambda name, kind, _: kind != "schema" or name != "idem"), set())


@test("drop_all drops the guards with the table, without a word")
def _():
    close_all_sessions()
    Base.metadata.drop_all(engine)
    same(guards(), 0)
    Base.metadata.create_all(engine)
    same(guards(), 0)
    guard()
    same(guards(), 2)


Base.metadata.create_all(engine)
guard()
run("SQLAlchemy")
