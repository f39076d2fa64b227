def walk(defs): return 0
