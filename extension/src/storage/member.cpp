#include "storage/member.hpp"

#include "server/compat.hpp"
#include "server/extension.hpp"

namespace idem {

namespace {

constinit Member *watched = nullptr; // all that this backend has used, by `next`

void relation_changed(Datum, Oid relation) {
    for (Member *member = watched; member != nullptr; member = member->next)
        if (relation == InvalidOid || relation == member->relation) {
            member->is_checked = false;
            member->generation++;
        }
}

void watch(Member &member) {
    if (member.is_watched)
        return;
    member.next = watched;
    member.is_watched = true;
    watched = &member;
}

Oid find_member(const MemberLayout &layout) {
    const Oid relation = get_relname_relid(layout.name, extension().schema);
    if (!OidIsValid(relation))
        raise_not_as_installed(layout.name, "The relation does not exist.");
    if (getExtensionOfObject(RelationRelationId, relation) != extension().oid)
        raise_not_as_installed(layout.name, "The relation does not belong to the extension.");
    return relation;
}

// Extensions that spread a table over other servers leave an ordinary-looking, empty shell behind.
bool is_distributed(Oid relation) {
    const Oid registry = get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
    if (!OidIsValid(registry))
        return false;
    const AttrNumber column = get_attnum(registry, "logicalrelid");
    if (column == InvalidAttrNumber)
        return false;
    Relation table = table_open(registry, AccessShareLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 1, &entry);
    const bool listed = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    return listed;
}

void check_storage(Relation relation, const MemberLayout &layout) {
    if (relation->rd_rel->relkind != layout.kind || relation->rd_rel->relispartition)
        raise_not_as_installed(layout.name, "It is not a plain local relation.");
    if (RelationIsUsedAsCatalogTable(relation))
        raise_not_as_installed(layout.name, "It is used as a catalog table.");
    if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
        raise_not_as_installed(layout.name, "It is not logged, so a crash would forget its rows.");
    if (layout.kind == RELKIND_RELATION && relation->rd_rel->relam != HEAP_TABLE_AM_OID)
        raise_not_as_installed(layout.name, "It does not use the heap access method.");
    // relhassubclass may still say so when the last child is gone.
    if (relation->rd_rel->relhassubclass && find_inheritance_children(RelationGetRelid(relation), NoLock) != NIL)
        raise_not_as_installed(layout.name, "Other tables inherit from it.");
    if (is_distributed(RelationGetRelid(relation)))
        raise_not_as_installed(layout.name, "Another extension has distributed it.");
}

void check_columns(Relation table, const MemberLayout &layout) {
    TupleDesc actual = RelationGetDescr(table);
    bool same = actual->natts == layout.count;
    for (int i = 0; same && i < layout.count; i++) {
        Form_pg_attribute column = TupleDescAttr(actual, i);
        same = !column->attisdropped && column->atttypid == layout.columns[i].type && !column->attgenerated &&
               column->attnotnull != layout.columns[i].is_nullable &&
               strcmp(NameStr(column->attname), layout.columns[i].name) == 0;
    }
    if (!same)
        raise_not_as_installed(layout.name, "Its columns were changed.");
}

// Values of exactly these columns go to the index, and their order is the type's own, bytewise for text.
bool is_primary_key(Relation index, const MemberLayout &layout) {
    Form_pg_index form = index->rd_index;
    const int count = layout.key[1] == InvalidAttrNumber ? 1 : 2;
    if (index->rd_rel->relam != BTREE_AM_OID || !form->indisunique || !form->indimmediate || !form->indisvalid ||
        form->indnkeyatts != count || form->indnatts != count)
        return false;
    for (int i = 0; i < count; i++) {
        const Oid usual = GetDefaultOpClass(layout.columns[layout.key[i] - 1].type, BTREE_AM_OID);
        if (form->indkey.values[i] != layout.key[i] || index->rd_indoption[i] != 0 ||
            index->rd_opfamily[i] != get_opclass_family(usual) ||
            (OidIsValid(index->rd_indcollation[i]) && index->rd_indcollation[i] != C_COLLATION_OID))
            return false;
    }
    return true;
}

// The primary key arbitrates who holds a key.
void check_primary_key(Relation table, const MemberLayout &layout) {
    for (;;) {
        const Oid index_oid = compat_primary_key(table);
        if (!OidIsValid(index_oid))
            raise_not_as_installed(layout.name, "It has no primary key.");
        Relation index = index_open(index_oid, AccessShareLock);
        const bool right = is_primary_key(index, layout);
        index_close(index, AccessShareLock);
        if (right)
            return;
        // REINDEX CONCURRENTLY may have put another in its place before this one was open.
        if (compat_primary_key(table) == index_oid)
            raise_not_as_installed(layout.name, "Its primary key is not that of the installation, in the \"C\" collation.");
    }
}

// What a write past the executor would not check must not be there: constraints of others, and uniqueness that waits for the
// commit.
void check_constraints(Relation table, const MemberLayout &layout) {
    const TupleConstr *constraints = RelationGetDescr(table)->constr;
    const int checks = constraints == nullptr ? 0 : constraints->num_check;
    if (layout.checks != kAnyChecks && checks != layout.checks)
        raise_not_as_installed(layout.name, "Its check constraints were changed.");
    List *indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const bool immediate = index->rd_index->indimmediate;
        index_close(index, AccessShareLock);
        if (!immediate)
            raise_not_as_installed(layout.name, "It has a deferrable constraint.");
    }
    list_free(indexes);
}

// Some tables are written by SQL, which rules rewrite.
void check_rules(Relation table, const MemberLayout &layout) {
    if (table->rd_rules != nullptr)
        raise_not_as_installed(layout.name, "It has a rule.");
}

// Tools that copy a table by a trigger, such as pg_repack, would miss what is written past the executor.
void check_triggers(Relation table, const MemberLayout &layout) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (trigger.tgenabled == TRIGGER_FIRES_ALWAYS &&
            getExtensionOfObject(ProcedureRelationId, trigger.tgfoid) != extension().oid)
            raise_not_as_installed(
                layout.name, psprintf("Its trigger \"%s\" is enabled ALWAYS, and the functions fire none.", trigger.tgname));
    }
}

// A foreign key is kept by triggers, on both of its tables. Sweeping and claiming fire none.
void check_foreign_keys(Relation table, const MemberLayout &layout) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (RI_FKey_trigger_type(triggers->triggers[i].tgfoid) != RI_TRIGGER_NONE)
            raise_not_as_installed(layout.name, "It takes part in a foreign key.");
}

// Secrets are written past whatever indexes the table may have, and past logical decoding; with a full replica identity, that
// would still get the rows that are deleted.
void check_secrets(Relation table, const MemberLayout &layout) {
    if (RelationGetIndexList(table) != NIL)
        raise_not_as_installed(layout.name, "It has an index.");
    if (table->rd_rel->relreplident == REPLICA_IDENTITY_FULL)
        raise_not_as_installed(layout.name,
                               "Its replica identity is full, so logical replication would carry what is deleted.");
}

void check(Relation relation, const MemberLayout &layout) {
    check_storage(relation, layout);
    if (layout.kind != RELKIND_RELATION)
        return;
    check_columns(relation, layout);
    if (layout.key[0] != InvalidAttrNumber)
        check_primary_key(relation, layout);
    check_constraints(relation, layout);
    check_rules(relation, layout);
    check_foreign_keys(relation, layout);
    if (layout.checks != kAnyChecks || layout.holds_secrets) // not written by the executor
        check_triggers(relation, layout);
    if (layout.holds_secrets)
        check_secrets(relation, layout);
}

// Whether `relation`, which is locked, is the member. It is checked if it was not; a change that arrives meanwhile makes the
// next call check it again.
bool is_member(Member &member, Relation relation) {
    if (member.is_checked && member.relation == RelationGetRelid(relation))
        return true;
    member.relation = RelationGetRelid(relation);
    const uint64 seen = member.generation;
    if (find_member(member.layout) != member.relation)
        return false;
    check(relation, member.layout);
    member.is_checked = seen == member.generation;
    return true;
}

} // namespace

Relation open_member(Member &member, LOCKMODE lock) {
    watch(member);
    // Changes of other sessions count even where every lock is held already.
    AcceptInvalidationMessages();
    for (;; check_for_interrupts()) {
        const Oid wanted = member.is_checked ? member.relation : find_member(member.layout);
        // The wait for the lock may have been for a change, or for its end.
        Relation relation = try_relation_open(wanted, lock);
        if (relation == nullptr)
            continue;
        if (is_member(member, relation))
            return relation;
        relation_close(relation, lock);
    }
}

Relation open_member_held(Member &member, LOCKMODE lock) {
    const LocalTransactionId transaction = compat_local_transaction();
    if (member.held.transaction == transaction && member.held.lock == lock) {
        AcceptInvalidationMessages();
        if (member.is_checked && member.relation == member.held.relation)
            return RelationIdGetRelation(member.relation);
    }
    Relation relation = open_member(member, lock);
    // Once more for the whole transaction: the first would go with a subtransaction that is rolled back.
    const ResourceOwner owner = CurrentResourceOwner;
    CurrentResourceOwner = TopTransactionResourceOwner;
    LockRelationOid(RelationGetRelid(relation), lock);
    CurrentResourceOwner = owner;
    member.held = {RelationGetRelid(relation), transaction, lock};
    return relation;
}

char *member_name(Member &member) {
    relation_close(open_member(member, AccessShareLock), NoLock);
    return qualified_name(member.layout.name);
}

void invalidate_member(const Member &member) { CacheInvalidateRelcacheByRelid(member.relation); }

uint64 generation_of(Member &member) {
    watch(member);
    AcceptInvalidationMessages();
    return member.generation;
}

void members_initialize() { CacheRegisterRelcacheCallback(relation_changed, Datum{0}); }

} // namespace idem
