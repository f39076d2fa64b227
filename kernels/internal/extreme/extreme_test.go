//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
)

// FuzzExtremeAttributes draws a call of an op from bytes.
func FuzzExtremeAttributes(f *testing.F) {
	for i := range uint64(200) {
		f.Add(i, bytesOf(i))
	}
	f.Fuzz(func(t *testing.T, op uint64, data []byte) {
		var r rooms
		c := draw(opOf(op), data)
		if _, err := r.check(t, c); err != nil {
			t.Fatalf("%v\n%v", c, err)
		}
	})
}

// bytesOf are bytes to draw from.
func bytesOf(seed uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, mixed(seed+1))
}

// TestExtremeAttributes draws calls of every op until some are computed, and some accepted that have an extreme
// attribute. Ops that take none are listed.
func TestExtremeAttributes(t *testing.T) {
	var r rooms
	total := map[outcome]int{}
	least, enough := testsize.Of[uint64](0, 4), testsize.Of[uint64](5, 100) // seeds
	never := map[string]bool{}
	for _, op := range ops {
		if !among(op) {
			continue
		}
		counts := map[outcome]int{}
		extreme := 0
		for seed := range uint64(400) {
			c := draw(op, bytesOf(seed))
			o, err := r.check(t, c)
			if err != nil {
				t.Errorf("seed %d: %v\n%v", seed, c, err)
				break
			}
			if counts[o]++; o != refused && c.extreme {
				extreme++
			}
			if seed > least && counts[computed] > testsize.Of(0, 2) && (extreme > 0 || !hasIntegers(op) || seed > enough) {
				break
			}
		}
		if counts[computed] == 0 {
			t.Errorf("%s: no call was computed: %v", op.Name, counts)
		}
		if hasIntegers(op) && extreme == 0 {
			never[op.Name] = true
		}
		for o, n := range counts {
			total[o] += n
		}
	}
	t.Logf("%d refused, %d priced, %d computed; without extremes: %v", total[refused], total[priced], total[computed],
		slices.Sorted(maps.Keys(never)))
}
