package tensor

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// smallAllocation is the number of bytes below which nobody asks how large the machine is.
const smallAllocation = 1 << 30

// allocatable reports a number of bytes that no allocation can give: negative ones, and
// more than memory and swap of the machine. It is the last line only. What a process may
// have at the moment is for those to ask who plan a run.
func allocatable(n int) error {
	switch {
	case n < 0:
		return fmt.Errorf("storage of %d bytes", n)
	case n <= smallAllocation:
		return nil
	}
	if most := machineBytes(); n > most {
		return fmt.Errorf("storage of %d bytes is more than the %d bytes that the machine can hold", n, most)
	}
	return nil
}

// machineBytes returns the size of memory and swap; MaxBytes where that is not known.
var machineBytes = sync.OnceValue(func() int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return MaxBytes
	}
	defer f.Close()
	total := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if name != "MemTotal" && name != "SwapTotal" {
			continue
		}
		kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		if err != nil {
			return MaxBytes
		}
		total += kb << 10
	}
	if total == 0 {
		return MaxBytes
	}
	return min(total, MaxBytes)
})
