package kernels_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// A kernel that loses support for a dtype must not pass for one that PyTorch does not support. So the calls that
// pointwise ops reject are listed in a file; all others must be supported, in every random layout and shape.

const rejectedFile = "pointwise_rejected.json"

var updateRejected = flag.Bool("update-rejected", false, "rewrite testdata/"+rejectedFile)

// mixed reports whether the operands of a round have several dtypes. Whether those can be promoted depends on the draw.
func mixed(round int) bool { return round%3 == 2 }

// rounds returns the number of calls for each dtype. The list of rejected calls is written from all of them.
func rounds() int {
	if *updateRejected {
		return 10
	}
	return testsize.Of(3, 10)
}

// rejectedCalls runs the op's examples on operands of every dtype. It returns the rejected ones: a dtype, or one of the
// examples with that dtype. Rejection must not depend on layouts or shapes.
func rejectedCalls(t *testing.T, op *graph.Op) []string {
	rejected := []string{}
	for i, d := range tensor.DTypes() {
		supported, calls := make([]int, len(op.Examples)), make([]int, len(op.Examples))
		for round := range rounds() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(round)))
			ok, err := randomCall(r, op, d, round)
			if err != nil {
				t.Fatalf("%v, round %d: %v", d, round, err)
			}
			if mixed(round) {
				continue
			}
			calls[round%len(op.Examples)]++
			if ok {
				supported[round%len(op.Examples)]++
			}
		}
		var of []string
		tried := 0
		for k := range calls {
			if supported[k] > 0 && supported[k] < calls[k] {
				t.Errorf("%v, example %d: %d of %d calls are rejected", d, k, calls[k]-supported[k], calls[k])
			}
			if calls[k] > 0 {
				tried++
			}
			if calls[k] > 0 && supported[k] == 0 {
				of = append(of, fmt.Sprintf("%v in example %d", d, k))
			}
		}
		if len(of) == tried {
			of = []string{d.String()}
		}
		rejected = append(rejected, of...)
	}
	return rejected
}

func readRejected(t *testing.T) map[string][]string {
	list := map[string][]string{}
	data, err := os.ReadFile(filepath.Join("testdata", rejectedFile))
	if os.IsNotExist(err) && *updateRejected {
		return list
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// writeRejected writes the list, one op per line.
func writeRejected(t *testing.T, list map[string][]string) {
	text := []byte("{")
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if len(list[name]) == 0 {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		line, _ := json.Marshal(list[name])
		text = fmt.Appendf(text, "\n%q: %s", name, line)
	}
	if err := os.WriteFile(filepath.Join("testdata", rejectedFile), append(text, "\n}\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
}
