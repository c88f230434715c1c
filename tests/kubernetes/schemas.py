"""Makes JSON schemas of Kubernetes' own objects for kubeconform, from the API descriptions in Kubernetes' sources.

usage: schemas.py FOLDER VERSION...

FOLDER/VERSION gets a file for each kind, such as statefulset-apps-v1.json. They are strict: a field that Kubernetes
does not know is an error. A version that is there is left alone. Needs Go, which fetches the sources.

    kubeconform -schema-location 'FOLDER/VERSION/{{.ResourceKind}}{{.KindSuffix}}.json' FILE...
"""

import json
import os
import shutil
import subprocess
import sys

DEFINITIONS = "_definitions.json"
# What the description calls a string may also be a number.
NUMBERS_TOO = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "number",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "integer",
}
# Of a schema; the rest are documentation, and hints for servers.
KEPT = ("type", "format", "enum", "required", "items", "properties", "additionalProperties", "$ref")


def description(version):
    """The API of a version of Kubernetes, as its sources describe it."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"]
    # Not the folder of some module, whose go.mod would have a say.
    result = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, check=False)
    module = json.loads(result.stdout)
    if result.returncode != 0:
        sys.exit(f"schemas.py: {module['Error']}")
    with open(f"{module['Dir']}/api/openapi-spec/swagger.json", encoding="utf-8") as file:
        return json.load(file)


def strict(schema):
    """The schema, such that it takes only fields that it names."""
    schema = {key: value for key, value in schema.items() if key in KEPT}
    if "$ref" in schema:
        return {"$ref": DEFINITIONS + schema["$ref"]}
    if "items" in schema:
        schema["items"] = strict(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = strict(schema["additionalProperties"])
    if "properties" in schema:
        required = schema.get("required", [])
        schema["properties"] = {
            name: strict(field) if name in required else or_null(strict(field))
            for name, field in schema["properties"].items()
        }
        schema.setdefault("additionalProperties", False)
    return schema


def or_null(schema):
    """A field that may be left out may be null as well: templates write such."""
    return {"anyOf": [schema, {"type": "null"}]}


def schema_of_kind(name, group, version, kind):
    fields = {"apiVersion": {"enum": [f"{group}/{version}" if group else version]}, "kind": {"enum": [kind]}}
    whole = {"$ref": f"{DEFINITIONS}#/definitions/{name}"}
    return {"allOf": [whole, {"properties": fields, "required": ["apiVersion", "kind"]}]}


def write_schemas(folder, version):
    def write(name, schema):
        with open(os.path.join(new, name), "w", encoding="utf-8") as file:
            json.dump({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, file)

    # The folder appears whole or not at all.
    new = os.path.join(folder, f"{version}.new")
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    definitions = description(version)["definitions"]
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        # What is of several groups is a part of requests, never a file.
        if len(kinds) == 1:
            group, api, kind = (kinds[0][key] for key in ("group", "version", "kind"))
            # kubeconform calls networking.k8s.io by its first word.
            parts = [kind.lower(), *([group.split(".")[0]] if group else []), api]
            write("-".join(parts) + ".json", schema_of_kind(name, group, api, kind))
    strict_definitions = {name: strict(definition) for name, definition in definitions.items()}
    for name, other in NUMBERS_TOO.items():
        strict_definitions[name] = {"type": ["string", other]}
    write(DEFINITIONS, {"definitions": strict_definitions})
    os.rename(new, os.path.join(folder, version))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for wanted in sys.argv[2:]:
        if not os.path.exists(os.path.join(sys.argv[1], wanted)):
            write_schemas(sys.argv[1], wanted)
