#include "storage/member.hpp"

#include "server/compat.hpp"
#include "server/extension.hpp"
#include "server/invalidation.hpp"

namespace idem {

namespace {

constinit Member *registered = nullptr; // the list of all members that this backend has used

void relation_changed(Oid relation) {
    for (Member *member = registered; member != nullptr; member = member->next)
        if (relation == InvalidOid || relation == member->relation) {
            member->is_checked = false;
            member->generation++;
        }
}

void register_member(Member &member) {
    if (member.is_registered)
        return;
    member.next = registered;
    member.is_registered = true;
    registered = &member;
}

void require_child(const MemberLayout &layout, Oid relation) {
    const Oid parent = get_relname_relid(layout.parent->name, extension().schema);
    if (!layout.parent->is_child(relation) || !list_member_oid(find_inheritance_children(parent, NoLock), relation))
        raise_not_as_installed(layout.name, "It is not a window that idem_ring_create made.");
}

bool has_foreign_child(Oid relation, const MemberLayout &layout) {
    ListCell *cell;
    foreach (cell, find_inheritance_children(relation, NoLock))
        if (layout.is_child == nullptr || !layout.is_child(lfirst_oid(cell)))
            return true;
    return false;
}

// The number of tables that the relation inherits from. A statement on one of them reads and changes the relation's rows.
int count_parents(Oid relation) {
    Relation inherits = table_open(InheritsRelationId, AccessShareLock);
    ScanKeyData child;
    ScanKeyInit(&child, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
    SysScanDesc scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, nullptr, 1, &child);
    int count = 0;
    while (HeapTupleIsValid(systable_getnext(scan)))
        count++;
    systable_endscan(scan);
    table_close(inherits, AccessShareLock);
    return count;
}

Oid find_member(const MemberLayout &layout) {
    const Oid relation = get_relname_relid(layout.name, extension().schema);
    if (!OidIsValid(relation))
        raise_not_as_installed(layout.name, "The relation does not exist.");
    if (layout.parent != nullptr)
        require_child(layout, relation);
    else if (getExtensionOfObject(RelationRelationId, relation) != extension().oid)
        raise_not_as_installed(layout.name, "The relation does not belong to the extension.");
    return relation;
}

// Citus distributes a table over other servers and leaves an empty table that looks like an ordinary one.
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
    // relhassubclass may still be set after the last child was dropped.
    if (relation->rd_rel->relhassubclass && has_foreign_child(RelationGetRelid(relation), layout))
        raise_not_as_installed(layout.name, "Other tables inherit from it.");
    if (layout.kind == RELKIND_RELATION && count_parents(RelationGetRelid(relation)) != (layout.parent != nullptr ? 1 : 0))
        raise_not_as_installed(layout.name, "It inherits from another table.");
    if (is_distributed(RelationGetRelid(relation)))
        raise_not_as_installed(layout.name,
                               "Citus has distributed it. Only the portable edition of idem works on distributed tables.");
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

// The index must have exactly these columns, in the type's default order; for text, bytewise.
bool is_primary_key(Relation index, const MemberLayout &layout) {
    Form_pg_index form = index->rd_index;
    const int count = layout.key[1] == InvalidAttrNumber ? 1 : 2;
    if (index->rd_rel->relam != BTREE_AM_OID || !form->indisunique || !form->indimmediate || !form->indisvalid ||
        form->indnkeyatts != count || form->indnatts != count)
        return false;
    for (int i = 0; i < count; i++) {
        const Oid default_class = GetDefaultOpClass(layout.columns[layout.key[i] - 1].type, BTREE_AM_OID);
        if (form->indkey.values[i] != layout.key[i] || index->rd_indoption[i] != 0 ||
            index->rd_opfamily[i] != get_opclass_family(default_class) ||
            (OidIsValid(index->rd_indcollation[i]) && index->rd_indcollation[i] != C_COLLATION_OID))
            return false;
    }
    return true;
}

// The primary key decides which transaction holds a key.
void check_primary_key(Relation table, const MemberLayout &layout) {
    for (;;) {
        const Oid index_oid = compat_primary_key(table);
        if (!OidIsValid(index_oid))
            raise_not_as_installed(layout.name, "It has no primary key.");
        Relation index = index_open(index_oid, AccessShareLock);
        const bool is_as_installed = is_primary_key(index, layout);
        index_close(index, AccessShareLock);
        if (is_as_installed)
            return;
        // REINDEX CONCURRENTLY may have replaced the index before it was opened.
        if (compat_primary_key(table) == index_oid)
            raise_not_as_installed(layout.name, "Its primary key is not that of the installation, in the \"C\" collation.");
    }
}

// A write without the executor does not check constraints that others added, nor deferred uniqueness, so none may exist.
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

// SQL writes some of the tables, and a rule would rewrite it.
void check_rules(Relation table, const MemberLayout &layout) {
    if (table->rd_rules != nullptr)
        raise_not_as_installed(layout.name, "It has a rule.");
}

// Tools that copy a table by a trigger, such as pg_repack, would miss rows that are written without the executor.
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

// Triggers on both tables enforce a foreign key, and sweeps and claims fire none.
void check_foreign_keys(Relation table, const MemberLayout &layout) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        if (RI_FKey_trigger_type(triggers->triggers[i].tgfoid) != RI_TRIGGER_NONE)
            raise_not_as_installed(layout.name, "It takes part in a foreign key.");
}

// Secrets are written without index entries and without logical decoding. With a full replica identity, logical decoding would
// still output the deleted rows.
void check_secrets(Relation table, const MemberLayout &layout) {
    if (RelationGetIndexList(table) != NIL)
        raise_not_as_installed(layout.name, "It has an index.");
    if (table->rd_rel->relreplident == REPLICA_IDENTITY_FULL)
        raise_not_as_installed(layout.name, "Its replica identity is full, so logical replication would carry deleted rows.");
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
    if (layout.checks != kAnyChecks || layout.holds_secrets) // the executor does not write the table
        check_triggers(relation, layout);
    if (layout.holds_secrets)
        check_secrets(relation, layout);
}

// Whether `relation` is the member; checks it unless the cache has the result. After a change that arrives during the check,
// the next call checks again. REQUIRES: `relation` is locked.
bool is_member(Member &member, Relation relation) {
    if (member.is_checked && member.relation == RelationGetRelid(relation))
        return true;
    member.relation = RelationGetRelid(relation);
    const uint64 generation_before = member.generation;
    if (find_member(member.layout) != member.relation)
        return false;
    check(relation, member.layout);
    member.is_checked = generation_before == member.generation;
    return true;
}

} // namespace

Relation open_locked_relation(Oid oid) {
    Relation relation = RelationIdGetRelation(oid);
    if (!RelationIsValid(relation))
        elog(ERROR, "could not open relation with OID %u", oid);
    pgstat_init_relation(relation); // as relation_open does
    return relation;
}

Relation open_member(Member &member, LOCKMODE lock) {
    register_member(member);
    // A lock that is already held receives no invalidations, so ask for the changes of other sessions.
    AcceptInvalidationMessages();
    // A relation that was checked exists, and still does if nothing was reported during the wait for the lock.
    if (member.is_checked) {
        const Oid oid = member.relation;
        LockRelationOid(oid, lock);
        if (member.is_checked && member.relation == oid)
            return open_locked_relation(oid);
        UnlockRelationOid(oid, lock);
    }
    for (;; check_for_interrupts()) {
        const Oid oid = member.is_checked ? member.relation : find_member(member.layout);
        // The relation may be altered or dropped during the wait for the lock.
        Relation relation = try_relation_open(oid, lock);
        if (relation == nullptr)
            continue;
        if (is_member(member, relation))
            return relation;
        relation_close(relation, lock);
    }
}

Relation open_member_if_unlocked(Member &member, LOCKMODE lock) {
    register_member(member);
    const bool was_checked = member.is_checked;
    const Oid oid = was_checked ? member.relation : find_member(member.layout);
    if (!ConditionalLockRelationOid(oid, lock))
        return nullptr;
    if (was_checked && member.is_checked && member.relation == oid)
        return open_locked_relation(oid);
    Relation relation = open_member(member, lock); // does not wait
    UnlockRelationOid(oid, lock);
    return relation;
}

Relation open_member_held(Member &member, LOCKMODE lock) {
    const LocalTransactionId transaction = compat_local_transaction();
    if (member.held.transaction == transaction && member.held.lock == lock) {
        AcceptInvalidationMessages();
        if (member.is_checked && member.relation == member.held.relation)
            return open_locked_relation(member.relation);
    }
    Relation relation = open_member(member, lock);
    // Lock again with the top transaction as owner: the first lock ends if a subtransaction is rolled back.
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
    register_member(member);
    AcceptInvalidationMessages();
    return member.generation;
}

void members_initialize() { on_relation_change(relation_changed); }

} // namespace idem
