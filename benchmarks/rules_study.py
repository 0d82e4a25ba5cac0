"""How often RuleInference is right: simulated tasks with hidden rules, and without any. Seeds are 0, 1, 2, ...

python benchmarks/rules_study.py --hidden 200 --free 500 --out build/rules_study.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import joblib
from rules_tasks import judge


def main() -> None:
    """Print how often the rules were right, and write down every task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=200, help="tasks with 1 to 3 hidden rules")
    parser.add_argument("--free", type=int, default=500, help="tasks without any")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("build/rules_study.json"))
    options = parser.parse_args()
    jobs = joblib.Parallel(n_jobs=options.jobs)
    hidden = jobs(joblib.delayed(judge)(seed, 1 + seed % 3) for seed in range(options.hidden))
    free = jobs(joblib.delayed(judge)(seed, 0) for seed in range(options.free))
    for one in hidden:
        if not one.right:
            print(f"seed {one.seed}: hidden {one.hidden}, found {one.found}")
            print(f"    forbidden by mistake {one.false:.3f}, missing {one.missing:.3f}, level {one.least:.3f} nats")
    if hidden:
        n_right, n_nearly = sum(one.right for one in hidden), sum(one.nearly for one in hidden)
        print(f"right: {n_right} of {len(hidden)} ({n_right / len(hidden):.1%})")
        print(f"right up to mistakes below the level: {n_nearly} of {len(hidden)} ({n_nearly / len(hidden):.1%})")
    if free:
        n_false = sum(bool(one.found) for one in free)
        print(f"a rule where there is none: {n_false} of {len(free)} ({n_false / len(free):.1%})")
    seconds = [one.seconds for one in [*hidden, *free]]
    print(f"{sum(seconds) / max(1, len(seconds)):.2f} s per task")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"hidden": list(map(asdict, hidden)), "free": list(map(asdict, free))}, indent=1))


if __name__ == "__main__":
    main()
