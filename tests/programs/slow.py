import sys
import time

for step in range(10_000):
    if "quiet" not in sys.argv:
        print("step", step)
    time.sleep(0.05)
