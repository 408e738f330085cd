"""Whether the process lives, and whether it can keep its promises."""

from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

from memory_site.database.facts import lacking_durability
from memory_site.problems import Problem
from memory_site.wire import rest


def healthz(request: HttpRequest) -> HttpResponse:
    """Say that the process answers; it asks nobody."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """Say whether requests can be served: database reachable, migrated and durable. Changes nothing."""
    try:
        lacking = lacking_durability()
        if lacking:
            raise Problem(
                "unavailable",
                f"The database would lose acknowledged writes in a crash: {', '.join(lacking)} is off.",
                reason="not_durable",
            )
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            raise Problem(
                "unavailable", "The database is not migrated. Run `manage.py migrate`.", reason="not_migrated"
            )
    except (Problem, DatabaseError) as error:
        return rest.answer(rest.problem_of(error))
    return JsonResponse({"status": "ready"})
