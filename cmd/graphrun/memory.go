package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/graphrun/graphrun/graph"
)

// fits refuses values that cannot lie in this machine's memory, one by one: running out of
// memory ends a Go program without a word for the user. Views take none.
func fits(g *graph.Graph) error {
	most := machineMemory()
	if most <= 0 {
		return nil
	}
	check := func(v *graph.Value) error {
		if v.Alias != nil || v.Dynamic {
			return nil
		}
		if n := v.Meta.Extent() * v.Meta.DType.Size(); n > most {
			return fmt.Errorf("value %q, %v, takes %s: this machine has %s of memory", v.Name, v.Meta, byteSize(n), byteSize(most))
		}
		return nil
	}
	for _, v := range g.Inputs {
		if err := check(v); err != nil {
			return failed(err)
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if err := check(v); err != nil {
				return failed(g.Fail(n, err))
			}
		}
	}
	return nil
}

// machineMemory returns the bytes of memory and swap, 0 where nobody tells.
func machineMemory() int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	total, n := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		for _, form := range []string{"MemTotal: %d kB", "SwapTotal: %d kB"} {
			if _, err := fmt.Sscanf(s.Text(), form, &n); err == nil {
				total += n << 10
			}
		}
	}
	return total
}
