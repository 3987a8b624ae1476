"""Tables and views of PostgreSQL as its catalog describes them, and statements that give a new one the same rights."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from msgspec import Struct
from psycopg import sql

from headrace.pipeline.sinks.table_store import quoted


class Relation(Struct, frozen=True, kw_only=True):
    name: str
    columns: tuple[tuple[str, str], ...]
    """names and types, in order"""
    owner: str
    comment: str | None
    options: tuple[str, ...]
    """such as security_invoker=true"""
    grants: tuple[tuple[str, str, bool], ...]
    """role (empty for PUBLIC), privilege, and whether the role may grant it"""
    column_comments: tuple[tuple[str, str], ...]

    @property
    def options_clause(self) -> str:
        return f" WITH ({', '.join(self.options)})" if self.options else ""

    def restoring(self, name: str) -> Iterator[str]:
        """Statements that give a new view of this name the owner, the grants and the comments of this one."""
        view = quoted(name)
        for role, privilege, may_grant in self.grants:
            if role != self.owner:
                grantee = quoted(role) if role else "PUBLIC"
                yield f"GRANT {privilege} ON {view} TO {grantee}{' WITH GRANT OPTION' if may_grant else ''}"
        if self.comment is not None:
            yield f"COMMENT ON VIEW {view} IS {_literal(self.comment)}"
        for column, text in self.column_comments:
            yield (
                f"DO $$ BEGIN COMMENT ON COLUMN {view}.{quoted(column)} IS {_literal(text)}; "
                "EXCEPTION WHEN undefined_column THEN NULL; END $$"
            )
        yield f"ALTER VIEW {view} OWNER TO {quoted(self.owner)}"


def relation(connection: psycopg.Connection, name: str) -> Relation | None:
    """The visible table or view of this name."""
    found = connection.execute(
        "SELECT oid, pg_get_userbyid(relowner), obj_description(oid, 'pg_class'), reloptions FROM pg_class "
        "WHERE oid = to_regclass(%s)",
        (quoted(name),),
    ).fetchone()
    if found is None:
        return None
    oid, owner, comment, options = found
    columns = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (oid,),
    ).fetchall()
    grants = connection.execute(
        "SELECT CASE grantee WHEN 0 THEN '' ELSE pg_get_userbyid(grantee) END, privilege_type, is_grantable "
        "FROM pg_class, aclexplode(relacl) WHERE oid = %s",
        (oid,),
    ).fetchall()
    return Relation(
        name=name,
        columns=tuple((column, kind) for column, kind, _ in columns),
        owner=owner,
        comment=comment,
        options=tuple(options or ()),
        grants=tuple((role, privilege, may_grant) for role, privilege, may_grant in grants),
        column_comments=tuple((column, text) for column, _, text in columns if text is not None),
    )


def dependents(connection: psycopg.Connection, name: str) -> list[str]:
    """Views of the database that read this one."""
    rows = connection.execute(
        "SELECT DISTINCT r.ev_class::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid "
        "WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass(%s) AND r.ev_class <> d.refobjid "
        "ORDER BY 1",
        (quoted(name),),
    ).fetchall()
    return [each for (each,) in rows]


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)
