"""Schema versions of the SQLite state: one pure function per step returns the SQL that leads to the next version.

The version is kept in SQLite's ``user_version``, which is 0 in a new file. A released step is never edited: a
change of the schema is one more function at the end of ``STEPS``.
"""

from collections.abc import Callable

Step = Callable[[], tuple[str, ...]]


def create() -> tuple[str, ...]:
    """0 -> 1: create the tables of an empty file."""
    return (
        """CREATE TABLE grants (
            pod_uid TEXT NOT NULL,
            name TEXT NOT NULL,
            sandbox_id TEXT NOT NULL,
            container_id TEXT NOT NULL,
            state TEXT NOT NULL,
            created_order INTEGER NOT NULL,
            acknowledged TEXT,
            value TEXT NOT NULL,
            PRIMARY KEY (pod_uid, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE sandboxes (
            sandbox_id TEXT NOT NULL PRIMARY KEY,
            pod TEXT NOT NULL,
            annotations TEXT NOT NULL,
            cgroup_parent TEXT NOT NULL,
            config BLOB NOT NULL
        ) WITHOUT ROWID""",
    )


def remember_cold_starts() -> tuple[str, ...]:
    """1 -> 2: add when a container's cold start ends, in seconds since the epoch; NULL = it has none."""
    return ("ALTER TABLE grants ADD COLUMN warm_at_seconds REAL",)


def keep_decisions() -> tuple[str, ...]:
    """2 -> 3: add the record of the last decision about each container; ``outlives_row`` 1 = it holds nothing."""
    return (
        """CREATE TABLE decisions (
            pod_uid TEXT NOT NULL,
            name TEXT NOT NULL,
            namespace TEXT NOT NULL,
            pod TEXT NOT NULL,
            outlives_row INTEGER NOT NULL,
            decided_at_seconds REAL NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (pod_uid, name)
        ) WITHOUT ROWID""",
    )


def remember_doubts() -> tuple[str, ...]:
    """3 -> 4: add the pinning that was sent to a container and never confirmed, as JSON; NULL = none."""
    return ("ALTER TABLE grants ADD COLUMN doubted TEXT",)


def remember_displaced() -> tuple[str, ...]:
    """4 -> 5: add the containers that were moved for one that is being created, as JSON; NULL = none."""
    return ("ALTER TABLE grants ADD COLUMN displaced TEXT",)


def rename_preferences() -> tuple[str, ...]:
    """5 -> 6: ``wishes`` of a request is called ``preferences``, and in it ``tell`` is called ``resource_files``."""
    columns = (("grants", "value"), ("grants", "displaced"), ("decisions", "value"))
    fields = (("wishes", "preferences"), ("tell", "resource_files"))
    return (
        *(_renamed_origin(*column, old="tell", new="resource_files") for column in columns),
        *(_renamed_field(*column, old=old, new=new) for column in columns for old, new in fields),
    )


def _renamed_field(table: str, column: str, *, old: str, new: str) -> str:
    """Return the SQL that renames a field wherever it stands."""
    # Quotes inside a JSON string are escaped, and every key is a field's name: '"tell":' is always that field.
    return f"""UPDATE {table} SET {column} = replace({column}, '"{old}":', '"{new}":')"""


def _renamed_origin(table: str, column: str, *, old: str, new: str) -> str:
    """Return the SQL that renames a field in ``origins``, a list of pairs; the path excludes labels, also pairs."""
    found = f"atom = '{old}' AND fullkey LIKE '%.origins[%][0]'"
    return _changed(
        table, column, found, f"json_replace(text, found.path, '{new}')", f"""instr({column}, '["{old}",')"""
    )


def _changed(table: str, column: str, found: str, changed: str, where: str) -> str:
    """Return the SQL that changes JSON in a column, where that may have any of it, at each ``found.path``.

    ``found`` is a condition on a row of ``json_tree``, ``changed`` the whole ``text`` after the change at one path.
    """
    # SQLite's JSON functions take paths as arguments only: so one place after the other, on the text of the last.
    return f"""UPDATE {table} SET {column} = (
        WITH RECURSIVE
            found(number, path) AS (
                SELECT row_number() OVER (), fullkey FROM json_tree({table}.{column}) WHERE {found}
            ),
            changed(number, text) AS (
                SELECT 0, {table}.{column}
                UNION ALL
                SELECT found.number, {changed}
                FROM changed JOIN found ON found.number = changed.number + 1
            )
        SELECT text FROM changed ORDER BY number DESC LIMIT 1
    ) WHERE ({where}) AND json_valid({column})"""


def unite_decision_records() -> tuple[str, ...]:
    """6 -> 7: give decision records the keys that ``explain`` answers; leave a record that is no JSON as it is."""
    names = ", ".join(f"'{key}', json_extract(old.value, '$.who.{key}')" for key in ("namespace", "pod", "name"))
    sets = ", ".join(
        f"'{key}{end}', json_extract(old.value, '$.{when}.{key}')"
        for when, end in (("after", ""), ("before", "_before"))
        for key in ("cpus", "mems")
    )
    return (
        f"""UPDATE decisions SET value = json_set(value, '$.displaced',
            (SELECT json_group_array(json_object({names}, {sets}))
             FROM json_each(decisions.value, '$.displaced') AS old))
            WHERE json_valid(value) AND json_type(value, '$.displaced') = 'array'""",
        """UPDATE decisions SET value =
            json_set(json_remove(value, '$.moved'), '$.moves', json_extract(value, '$.moved'))
            WHERE json_valid(value) AND json_type(value, '$.moved') = 'array'""",
        """UPDATE decisions SET value = json_set(value, '$.company',
            (SELECT json_group_array(json_extract(old.value, '$.text'))
             FROM json_each(decisions.value, '$.company') AS old))
            WHERE json_valid(value) AND json_type(value, '$.company') = 'array'""",
        """UPDATE decisions SET value = json_set(value, '$.restored_at_seconds', decided_at_seconds,
            '$.decided_at_seconds', NULL)
            WHERE json_valid(value) AND json_extract(value, '$.outcome') = 'restored'""",
    )


def join_devices() -> tuple[str, ...]:
    """7 -> 8: one list of devices. ``allocated`` joins ``devices``, where those of cost files stood by their names.

    A name is a type, a slash and an instance, which has no slash.
    """
    return tuple(_with_joined_devices(*column) for column in _OF_GRANTS)


_OF_GRANTS = (("grants", "value"), ("grants", "displaced"), ("decisions", "value"))


def _with_joined_devices(table: str, column: str) -> str:
    """Return the SQL that joins the lists of every grant, and of what a container had before.

    What a decision record says of the devices that it ``granted`` is in words, and stays.
    """
    name = "device.value"
    kind = f"rtrim(rtrim({name}, replace({name}, '/', '')), '/')"
    instance = f"substr({name}, length({kind}) + iif(instr({name}, '/'), 2, 1))"
    listed = f"json_object('kind', {kind}, 'minor', {instance}, 'amount', 100)"
    found = "type = 'object' AND (fullkey = '$' OR fullkey LIKE '%.previous' OR fullkey LIKE '$[%].grant')"
    changed = f"""iif(
        json_type(text, found.path || '.devices') IS NULL AND json_type(text, found.path || '.allocated') IS NULL,
        text,
        json_remove(json_set(text, found.path || '.devices', json((
            SELECT json_group_array(json(value)) FROM (
                SELECT {listed} AS value FROM json_each(text, found.path || '.devices') AS device
                UNION ALL
                SELECT device.value FROM json_each(text, found.path || '.allocated') AS device
            )
        ))), found.path || '.allocated')
    )"""
    return _changed(
        table, column, found, changed, f"""instr({column}, '"devices":') OR instr({column}, '"allocated":')"""
    )


def ask_for_devices_once() -> tuple[str, ...]:
    """8 -> 9: one ask. ``allocation`` of preferences joins ``devices``, ``allocations`` of a pod's sums too."""
    origins = (("devices", "devices.counts"), ("allocation", "devices.requests"))
    return (
        *(_with_one_ask(*column) for column in _OF_GRANTS),
        *(_with_asks_of_pod(*column) for column in _OF_GRANTS),
        *(_renamed_origin(*column, old=old, new=new) for column in _OF_GRANTS for old, new in origins),
    )


def _with_one_ask(table: str, column: str) -> str:
    """Return the SQL that joins what the preferences of every request ask for."""
    parts = (("counts", ".devices"), ("requests", ".allocation.requests"), ("annotations", ".allocation.annotations"))
    ask = ", ".join(f"'{key}', json(coalesce(json_extract(text, found.path || '{old}'), '[]'))" for key, old in parts)
    changed = f"""iif(
        json_type(text, found.path || '.devices') IS NULL AND json_type(text, found.path || '.allocation') IS NULL,
        text,
        json_remove(json_set(text, found.path || '.devices', json_object({ask})), found.path || '.allocation')
    )"""
    found = "type = 'object' AND key = 'preferences'"
    return _changed(
        table, column, found, changed, f"""instr({column}, '"devices":') OR instr({column}, '"allocation":')"""
    )


def _with_asks_of_pod(table: str, column: str) -> str:
    """Return the SQL that makes one list of what a pod's containers ask for: its counts, then each one's amounts."""
    changed = """json_remove(json_set(text, found.path || '.devices', json((
        SELECT json_group_array(json(value)) FROM (
            SELECT json_object('counts', json(json_extract(text, found.path || '.devices'))) AS value
            WHERE json_array_length(text, found.path || '.devices') > 0
            UNION ALL
            SELECT ask.value FROM json_each(text, found.path || '.allocations') AS ask
        )
    ))), found.path || '.allocations')"""
    return _changed(
        table, column, "type = 'object' AND key = 'pod_sums'", changed, f"""instr({column}, '"pod_sums":')"""
    )


def rename_localities() -> tuple[str, ...]:
    """9 -> 10: ``hints`` of a request is called ``localities``, and so in its preferences: a hint is the kubelet's."""
    fields = (
        ("hints", "localities"),
        ("strict_hints", "strict_locality"),
        ("spread_by_hints", "spread_by_locality"),
    )
    return tuple(
        rename(*column, old=old, new=new)
        for rename in (_renamed_origin, _renamed_field)
        for column in _OF_GRANTS
        for old, new in fields
    )


STEPS: tuple[Step, ...] = (
    create,
    remember_cold_starts,
    keep_decisions,
    remember_doubts,
    remember_displaced,
    rename_preferences,
    unite_decision_records,
    join_devices,
    ask_for_devices_once,
    rename_localities,
)


def statements(version: int, steps: tuple[Step, ...] = STEPS) -> tuple[str, ...]:
    """Return the SQL that brings a store of this version to the newest one, to be run in one transaction.

    Raises ValueError for a version that is newer than ours.

    >>> statements(len(STEPS))
    ()
    """
    if not 0 <= version <= len(steps):
        raise ValueError(f"schema version {version}, this version supports up to {len(steps)}")
    if version == len(steps):
        return ()
    return (*(sql for step in steps[version:] for sql in step()), f"PRAGMA user_version = {len(steps)}")
