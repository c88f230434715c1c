"""Writes the bill of materials of an image: SPDX 2.3, as JSON, of the Debian packages in it.

usage: sbom.py IMAGE IMAGE_ID CREATED VERSION <packages >sbom.spdx.json

Each line of the input is one package: distribution ("debian", "pypi"), name, version, architecture, name and version of its
source, separated by tabs. CREATED is a date as SPDX has it: 2026-01-31T12:00:00Z.
"""

import json
import sys
import urllib.parse


def package(line):
    distribution, name, version, architecture, source, source_version = line.split("\t")
    quoted = urllib.parse.quote(version, safe="")
    whole = f"{distribution}-{name}-{version}-{architecture}"
    identifier = "".join(c if c.isalnum() or c in ".-" else "-" for c in whole)
    return {
        "SPDXID": f"SPDXRef-Package-{identifier}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "sourceInfo": f"built from {source} {source_version}",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:pypi/{name}@{quoted}"
                if distribution == "pypi"
                else f"pkg:deb/{distribution}/{name}@{quoted}?arch={architecture}",
            }
        ],
    }


def main():
    image, image_id, created, version = sys.argv[1:]
    # An image may have brought along what is in its base, too.
    packages = [package(line) for line in sorted(set(sys.stdin.read().splitlines()))]
    digest = image_id.removeprefix("sha256:")
    whole = {
        "SPDXID": "SPDXRef-Image",
        "name": image,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
    }
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": image,
        "documentNamespace": f"https://lockstep.invalid/spdx/{urllib.parse.quote(image)}-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: lockstep-sbom"]},
        "packages": [whole] + packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": "SPDXRef-Image",
            }
        ]
        + [
            {
                "spdxElementId": "SPDXRef-Image",
                "relationshipType": "CONTAINS",
                "relatedSpdxElement": part["SPDXID"],
            }
            for part in packages
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
