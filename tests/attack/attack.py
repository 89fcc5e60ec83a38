#!/usr/bin/env python3
"""Runs all attacks again and again, each round with other random numbers: attack.py SECONDS.

TENSORCASK names the tool. Prints the worst wait of an honest client under each attack, and exits with 1 if one of them
succeeded.
"""

import os
import sys
import time
import unittest

os.environ.setdefault("ATTACK_RACES", "20")
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import attack_receivers_test  # noqa: E402
import attack_servers_test  # noqa: E402
import attacks  # noqa: E402


def main():
    until = time.monotonic() + float(sys.argv[1])
    failed = False
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        attacks.seed += 1
        for module in (attack_servers_test, attack_receivers_test):
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
            failed |= not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()
    print(f"{rounds} rounds; the worst wait of an honest client under each attack:")
    for name, wait in sorted(attacks.worst_waits.items(), key=lambda item: -item[1]):
        print(f"  {wait:6.3f} s  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
