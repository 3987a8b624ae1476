"""The errors of the registry, with the HTTP status and the code of Confluent's API."""

from __future__ import annotations

from headrace.errors import HeadraceError

INVALID_SCHEMA = 42201
NO_SCHEMA = 40403


class RegistryError(HeadraceError):
    def __init__(self, status: int, code: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: object | None = None) -> RegistryError:
    name = "Schema" if schema_id is None else f"Schema {schema_id}"
    return RegistryError(404, NO_SCHEMA, f"{name} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(404, 40404, message)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    message = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, message)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    message = (
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )
    return RegistryError(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(404, 40407, message)


def no_subject_compatibility(subject: str) -> RegistryError:
    message = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, message)


def no_subject_mode(subject: str) -> RegistryError:
    return RegistryError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(message: str) -> RegistryError:
    return RegistryError(409, 409, message)


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(422, INVALID_SCHEMA, message)


def invalid_version(text: str) -> RegistryError:
    message = f"The specified version '{text}' is not a valid version id. "
    return RegistryError(
        422, 42202, message + 'Allowed values are between [1, 2^31-1] and the string "latest"'
    )


def invalid_compatibility() -> RegistryError:
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, message)


def invalid_mode() -> RegistryError:
    message = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT"
    return RegistryError(422, 42204, message)


def not_permitted(message: str) -> RegistryError:
    return RegistryError(422, 42205, message)


def referenced(message: str) -> RegistryError:
    return RegistryError(422, 42206, message)


def invalid_subject(message: str) -> RegistryError:
    return RegistryError(422, 42208, message)


def store_failed(error: HeadraceError) -> RegistryError:
    return RegistryError(500, 50001, f"Error in the backend data store: {error.message}", hint=error.hint)
