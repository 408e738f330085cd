"""The policy of a namespace: a lifetime for its records, and how many there can be. Operators set it."""

from typing import NamedTuple

from checkpoints.contracts import fault_of_namespace
from checkpoints.models import Namespace, namespace_key
from memory_site.database import statements
from memory_site.problems import Problem
from memory_site.sites.models import Site
from memory_site.wire.structs import ValidationFailed

MAX_TTL = 315_360_000  # seconds
MAX_RECORDS = 100_000  # a put in a full namespace costs time in proportion

# The row is locked before the conditions are judged, so that a first checkpoint and a policy cannot both win.
SET_POLICY = """
INSERT INTO namespace AS n (id, site_id, name, revision_floor, default_ttl, max_records)
VALUES (%(namespace)s::uuid, %(site)s::uuid, %(name)s::text, 0, %(default_ttl)s::integer, %(max_records)s::integer)
ON CONFLICT (id) DO UPDATE SET default_ttl = excluded.default_ttl, max_records = excluded.max_records
WHERE n.first_checkpoint_at IS NULL OR (excluded.default_ttl IS NULL AND excluded.max_records IS NULL)
RETURNING id
"""


class Policy(NamedTuple):
    """What happens to the records of a namespace by themselves: nothing, by default."""

    default_ttl: int | None = None
    """Seconds, for records that are put without a lifetime of their own."""
    max_records: int | None = None
    """The oldest written goes when a put passes it."""


def policy_of(site: Site, name: str) -> Policy:
    """Return the policy of a namespace; one that does not exist yet has none."""
    check_name(name)
    found = Namespace.objects.for_site(site).filter(pk=namespace_key(site, name)).first()
    return Policy() if found is None else Policy(found.default_ttl, found.max_records)


def set_policy(site: Site, name: str, policy: Policy, *, dry_run: bool = False) -> None:
    """Give a namespace a policy, for every put from now on; a namespace that does not exist yet is made.

    What is there stays as it is: records keep their expiry, and more than the maximum go with the next put or prune.
    Raises ``namespace_not_durable`` if the namespace has checkpoints, and ``validation_failed``. ``dry_run`` judges
    and changes nothing.
    """
    check_name(name)
    for field, value, limit in (
        ("default_ttl", policy.default_ttl, MAX_TTL),
        ("max_records", policy.max_records, MAX_RECORDS),
    ):
        if value is not None and not 1 <= value <= limit:
            raise ValidationFailed(field, f"`{field}` is 1 to {limit}.")
    key = namespace_key(site, name)
    if dry_run:
        fits = (
            policy == Policy()
            or not Namespace.objects.for_site(site).filter(pk=key, first_checkpoint_at__isnull=False).exists()
        )
    else:
        fits = bool(statements.write(SET_POLICY, {"namespace": key, "site": site.id, "name": name, **policy._asdict()}))
    if not fits:
        raise Problem(
            "namespace_not_durable",
            "This namespace has checkpoints, which lean on its records: they cannot expire or be evicted by a policy.",
        )


def check_name(name: str) -> None:
    fault = fault_of_namespace(name)
    if fault is not None:
        raise ValidationFailed("namespace", fault)
