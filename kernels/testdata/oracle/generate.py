#!/usr/bin/python3
"""Writes FAMILY.zip for each family of the torch oracle: random calls, and PyTorch's answers.

    /usr/bin/python3 generate.py

Each archive holds graph.json, expected.json, inputs.npz and outputs.npz, as torch_oracle.py writes
them for the seed and the number of calls below.
"""
import os
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 7001
CASES = {"views": 250, "copies": 150, "broken": 150, "pairs": 120, "nn": 90, "reductions": 200, "promotion": 150,
         "elementwise": 60}


def main():
    for family, cases in CASES.items():
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run([sys.executable, os.path.join(HERE, "torch_oracle.py"), family, "--seed", str(SEED),
                            "--cases", str(cases), "--out", tmp, "--values"], check=True)
            with zipfile.ZipFile(os.path.join(HERE, family + ".zip"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
                for name in sorted(os.listdir(tmp)):
                    with open(os.path.join(tmp, name), "rb") as f:
                        # A date of its own would make another archive of the same answers.
                        z.writestr(zipfile.ZipInfo(name), f.read(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
