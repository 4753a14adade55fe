"""Django's rows: locked and changed through idem, and read back as instances of the model."""

import datetime
import decimal

from tap import same


def run():
    import django_app  # sets Django up
    from django.db import connection, models, transaction
    from idem_postgres.django import RowBusy, adjust, insert_once, move, select_for_update, select_many_for_update, update_if, update_version

    class Item(models.Model):
        name = models.TextField(null=True)
        cost = models.DecimalField(max_digits=20, decimal_places=2, db_column="price", null=True)
        day = models.DateField(null=True)
        state = models.TextField(default="created")
        version = models.IntegerField(default=1)

        class Meta:
            app_label = "shop"
            db_table = 'shop"."item'

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop.item WHERE id < 10")
    item, is_new = insert_once(Item, {"id": 1, "name": "lamp", "cost": decimal.Decimal("9.90"), "day": datetime.date(2026, 11, 25)})
    same("rows: insert_once", (is_new, item.name, item.cost, item.day), (True, "lamp", decimal.Decimal("9.90"), datetime.date(2026, 11, 25)))
    same("rows: insert_once, again", insert_once(Item, {"pk": 1, "name": "other"})[1], False)
    with transaction.atomic():
        same("rows: select_for_update", select_for_update(Item, pk=1).cost, decimal.Decimal("9.90"))
        same("rows: another connection waits and fails", _busy(RowBusy, Item), "RowBusy")
        same("rows: select_many_for_update", [row.pk for row in select_many_for_update(Item, [{"id": 1}])], [1])
        try:
            select_for_update(Item, pk=2)
            got = "found"
        except Item.DoesNotExist:
            got = "DoesNotExist"
        same("rows: no such row", got, "DoesNotExist")
    outcome, row = update_version(Item, {"id": 1}, item.version, {"name": "desk lamp"})
    same("rows: update_version", (outcome, row.name, row.version), ("updated", "desk lamp", 2))
    same("rows: update_version, stale", update_version(Item, {"id": 1}, 1, {"name": "x"})[0], "conflict")
    same("rows: update_if", update_if(Item, {"id": 1}, {"cost": decimal.Decimal("9.9")}, {"cost": 5})[1].cost, decimal.Decimal("5"))
    same("rows: adjust", adjust(Item, {"id": 1}, "cost", -6).outcome, "out_of_range")
    same("rows: move", [move(Item, {"id": 1}, "created", "paid").outcome for _ in range(2)], ["moved", "already"])


def _busy(error, model):
    """In another thread, which has another connection."""
    import concurrent.futures

    from django.db import connection, transaction
    from idem_postgres.django import select_for_update
    from idem_postgres.django.rows import NOWAIT

    def attempt():
        try:
            with transaction.atomic():
                select_for_update(model, pk=1, wait=NOWAIT)
        except error:
            return error.__name__
        finally:
            connection.close()

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(attempt).result()
