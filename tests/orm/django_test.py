"""docs/orm.md, Django."""

import json
import tempfile

import django
from django.conf import settings

import os

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
            "USER": os.environ["PGUSER"],
            "NAME": os.environ["PGDATABASE"],
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["shop"],
    USE_TZ=True,
)

# The application "shop", with one migration.
import sys
import types

from django.apps import AppConfig

shop = types.ModuleType("shop")
shop.__path__ = [tempfile.mkdtemp()]
shop.__file__ = os.path.join(shop.__path__[0], "__init__.py")
sys.modules["shop"] = shop
django.setup()

from django.core.management import call_command
from django.db import DatabaseError, connection, migrations, models, transaction

from recipes import guards, raises, run, same, sql, test


class StaleObject(Exception):
    pass


class Guarded(models.Model):
    """The guard counts; a save writes the version that was read, which the guard compares, and reads the new one."""

    version = models.IntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def save(self, *args, **kwargs):
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
        super().save(*args, **kwargs)
        self.refresh_from_db(fields=["version"])


class Order(Guarded):
    state = models.TextField(default="created")
    note = models.TextField(null=True)

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Plain(models.Model):
    """Django's own save()."""

    note = models.TextField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        app_label = "shop"
        db_table = "plain_orders"


class Unmapped(models.Model):
    """The model does not have the version column."""

    note = models.TextField(null=True)

    class Meta:
        app_label = "shop"
        db_table = "unmapped_orders"


def create_tables():
    with connection.schema_editor() as editor:
        for model in Order, Plain, Unmapped:
            editor.create_model(model)
        migrations.RunSQL(
            "SELECT idem.optimistic_enable('orders'), idem.idem_machine_attach('orders', 'state', 'order')"
        ).database_forwards("shop", editor, None, None)
        editor.execute("SELECT idem.optimistic_enable('plain_orders'), idem.optimistic_enable('unmapped_orders')")


def query(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()


def sqlstate(error):
    # Django takes psycopg 3 where that is installed, from 4.2 on.
    cause = error.__cause__
    return cause.sqlstate if hasattr(cause, "sqlstate") else cause.pgcode


@test("save() writes the version that it has read: the first save is bumped, the second of the same object is ID004")
def _():
    plain = Plain.objects.create()
    plain.note = "a"
    plain.save()
    same((plain.version, Plain.objects.get(id=plain.id).version), (1, 2))
    plain.note = "b"
    same(sqlstate(raises(DatabaseError, plain.save)), "ID004")
    plain.refresh_from_db()
    plain.note = "b"
    plain.save()


@test("with the version read back after each save, the object can be saved again")
def _():
    order = Order.objects.create()
    for note in "a", "b":
        order.note = note
        order.save()
    same((order.version, sql(f"SELECT note, version FROM orders WHERE id = {order.id}")), (3, [("b", 3)]))


@test("a stale object is ID004")
def _():
    order = Order.objects.create()
    sql(f"UPDATE orders SET note = 'other' WHERE id = {order.id}")
    order.note = "mine"
    error = raises(DatabaseError, order.save)
    same((sqlstate(error), error.__cause__.diag.table_name), ("ID004", "orders"))


@test("save(update_fields) without the version overwrites; Guarded adds the version")
def _():
    plain = Plain.objects.create()
    sql(f"UPDATE plain_orders SET note = 'other' WHERE id = {plain.id}")
    plain.note = "mine"
    plain.save(update_fields=["note"])
    order = Order.objects.create()
    sql(f"UPDATE orders SET note = 'other' WHERE id = {order.id}")
    order.note = "mine"
    same(sqlstate(raises(DatabaseError, lambda: order.save(update_fields=["note"]))), "ID004")


@test("a model without the column: the guard counts, and the last write wins")
def _():
    order = Unmapped.objects.create()
    sql(f"UPDATE unmapped_orders SET note = 'other' WHERE id = {order.id}")
    order.note = "mine"
    order.save()
    same(sql(f"SELECT note, version FROM unmapped_orders WHERE id = {order.id}"), [("mine", 3)])


@test("QuerySet.update() with filter(version=) is a compare-and-set")
def _():
    order = Order.objects.create()
    same(Order.objects.filter(id=order.id, version=order.version).update(note="mine"), 1)
    same(Order.objects.filter(id=order.id, version=order.version).update(note="stale"), 0)
    order.refresh_from_db()
    same((order.note, order.version), ("mine", 2))


@test("two state changes before one save are one UPDATE: ID003 in __cause__")
def _():
    order = Order.objects.create()
    order.state = "paid"
    order.state = "shipped"
    error = raises(DatabaseError, order.save)
    same((sqlstate(error), error.__cause__.diag.column_name), ("ID003", "state"))


@test("a save after each state change makes both transitions")
def _():
    order = Order.objects.create()
    with transaction.atomic():
        for state in "paid", "shipped":
            order.state = state
            order.save()
    same((order.state, order.version), ("shipped", 3))


@test("a fixture in another state: loaddata and bulk_create raise ID003; through the states it is inserted")
def _():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"model": "shop.order", "pk": 100, "fields": {"state": "shipped"}}], file)
        file.flush()
        same(sqlstate(raises(DatabaseError, lambda: call_command("loaddata", file.name, verbosity=0))), "ID003")
    same(sqlstate(raises(DatabaseError, lambda: Order.objects.bulk_create([Order(state="shipped")]))), "ID003")
    order = Order.objects.create()
    for state in "paid", "shipped":
        order.state = state
        order.save()


@test("a fixture while the machine is detached; attaching checks its states")
def _():
    def load(state):
        with transaction.atomic():
            query("SELECT idem.idem_machine_detach('orders', 'state')")
            Order.objects.bulk_create([Order(state=state)])
            query("SELECT idem.idem_machine_attach('orders', 'state', 'order')")

    same(sqlstate(raises(DatabaseError, lambda: load("no such state"))), "23514")
    load("shipped")
    same(guards(), 2)


@test("a claim belongs to atomic()")
def _():
    def work(fails):
        with transaction.atomic():
            same(query("SELECT idem.idem_claim(%s)", "django 1"), (True,))
            Order.objects.create()
            if fails:
                raise StaleObject

    raises(StaleObject, lambda: work(True))
    work(False)
    same(query("SELECT idem.idem_claim(%s)", "django 1"), (False,))


@test("outside atomic() the claim is committed although the work fails")
def _():
    query("SELECT idem.idem_claim(%s)", "django 2")
    raises(DatabaseError, lambda: Order.objects.create(state="shipped"))
    same(query("SELECT idem.idem_claim(%s)", "django 2"), (False,))


@test("migrate and flush keep the guards, and inspectdb does not see idem's schema")
def _():
    from io import StringIO

    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("flush", interactive=False, verbosity=0)
    same(guards(), 2)
    models_found = StringIO()
    call_command("inspectdb", stdout=models_found)
    same(("class Orders(" in models_found.getvalue(), "Idem" in models_found.getvalue()), (True, False))


@test("with idem on the search_path, inspectdb sees idem's tables, too")
def _():
    query("SELECT set_config('search_path', 'public, idem', false)")
    same("idem_keys" in connection.introspection.table_names(), True)
    query("SELECT set_config('search_path', 'public', false)")


@test("a migration that deletes and creates the model drops the guards, without a word")
def _():
    with connection.schema_editor() as editor:
        editor.delete_model(Order)
        editor.create_model(Order)
    same(guards(), 0)


create_tables()
run("Django")
