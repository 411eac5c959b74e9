"""Write the golden files anew, all of them or those of the cases that are named: python tests/golden/write.py [case …].

Do this only where numbers or texts are meant to change, and read what git says has changed.
"""

import os
import sys
import time
import warnings
from pathlib import Path


def main(names):
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    # The same names for what is imported by worker processes.
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    import ooc_test_golden as golden
    from ooc_test_golden_cases import CASES

    warnings.simplefilter("error")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"There is no case {unknown[0]}. The cases are: {', '.join(CASES)}.")
    for name in names or CASES:
        start = time.perf_counter()
        golden.write(name, CASES[name]())
        print(f"{time.perf_counter() - start:6.2f} s  {golden.path_of(name).stat().st_size / 1000:6.1f} kB  {name}")
    if not names:
        for path in golden.path_of("").parent.glob("*.json"):
            if path.stem not in CASES:
                path.unlink()
                print(f"Removed {path.name}, of which there is no case any more.")


if __name__ == "__main__":
    main(sys.argv[1:])
