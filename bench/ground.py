"""What the run stands on, as every participant is told it: addresses, credentials, statements, names."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Tenant:
    """A site of the product, with a credential."""

    id: str
    slug: str
    secret: str


@dataclass(frozen=True)
class Ground:
    """Everything that a participant needs to know."""

    address: str
    """The product's, as ``host:port``."""
    dsn: str
    """Of the product's database, for the same SQL without the product."""
    peers_dsn: str
    """Of an empty database on the same server, for what keeps tables of its own."""
    writer: Tenant
    """The site that is appended to."""
    reader: Tenant
    """The site that the loaded conversations belong to."""
    statements: dict[str, str]
    """The product's own SQL by kind of workload."""
    list_parameters: list[Any]
    max_items: int
    max_bytes: int

    def dump(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Ground":
        """Return what ``dump`` wrote."""
        values = json.loads(text)
        return cls(**{**values, "writer": Tenant(**values["writer"]), "reader": Tenant(**values["reader"])})
