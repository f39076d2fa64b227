package plan

import (
	"math"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"4096": 4096, "0": 0, "64MiB": 64 << 20, "1.5 GiB": 3 << 29, "2kB": 2000,
		"3B": 3, "1TB": 1e12} {
		if want > math.MaxInt {
			continue // int has 32 bits
		}
		if got, err := parseBytes(text); err != nil || int64(got) != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"MiB", "-1", "64 MB ram", "1.2.3", "NaN", "99999999TiB", "1M", "∞"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
