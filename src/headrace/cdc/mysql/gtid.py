"""Global transaction ids: which transactions a capture has, as the server wants it from a replica.

MariaDB: the last id of each domain, `0-1-100,1-2-7`. MySQL: ranges of each source, `UUID:1-100:102`.
"""

from __future__ import annotations

from pymysqlreplication.gtid import Gtid, GtidSet


def after(state: str, gtid: str) -> str:
    """The state after one more transaction."""
    if is_mariadb(gtid):
        domains = {each.partition("-")[0]: each for each in state.split(",") if each}
        domains[gtid.partition("-")[0]] = gtid
        return ",".join(domains.values())
    if not state:
        return gtid
    found = GtidSet(state)
    if Gtid(gtid) not in found:
        found.merge_gtid(Gtid(gtid))
    return str(found)


def is_mariadb(gtid: str) -> bool:
    """A UUID has a colon before its ranges."""
    return ":" not in gtid


def encoded(state: str) -> bytes:
    """A set of MySQL as the command that asks for the log has it."""
    return bytes(GtidSet(state).encoded())
