package kit

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
)

// TestSort compares Sort with slices.SortFunc, and holds that it ends at any look at the context.
func TestSort(t *testing.T) {
	const n = 5*maxUncheckedSort + 17
	r := rand.New(rand.NewPCG(1, 1))
	for name, element := range map[string]func(i int) int{
		"random": func(int) int { return r.IntN(n) }, "sorted": func(i int) int { return i },
		"reversed": func(i int) int { return -i }, "few": func(i int) int { return i % 3 },
		"equal": func(int) int { return 7 }, "saw": func(i int) int { return i % (n / 3) },
		"one greatest": func(i int) int { return i / (n - 1) },
	} {
		for _, n := range []int{0, 1, maxUncheckedSort, n} {
			s := make([]int, n)
			for i := range s {
				s[i] = element(i)
			}
			want, ended := slices.Sorted(slices.Values(s)), slices.Clone(s)
			all := interrupttest.EndAtCheck(0)
			Sort(all, s, cmp.Compare[int])
			assert.True(t, slices.Equal(want, s), "%s, %d", name, n)
			for look := 1; look <= all.Checks(); look += 1 + look/2 {
				err := func() (err error) {
					defer interrupt.Catch(&err)
					Sort(interrupttest.EndAtCheck(look), slices.Clone(ended), cmp.Compare[int])
					return nil
				}()
				assert.ErrorIs(t, err, interrupttest.ErrEnded, "%s, look %d", name, look)
			}
			if n > maxUncheckedSort {
				assert.GreaterOrEqual(t, all.Checks(), n/maxUncheckedSort, name)
			}
		}
	}
}
