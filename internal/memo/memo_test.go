package memo

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// All goroutines get the value that was kept first. A derivation may use others, and one that panics keeps nothing.
func TestMemo(t *testing.T) {
	var m Memo
	type key struct{ n int }
	var group sync.WaitGroup
	results := make([]*int, 20)
	for i := range results {
		group.Go(func() { results[i] = Of(&m, key{1}, func() *int { return &i }) })
	}
	group.Wait()
	for _, result := range results {
		assert.Same(t, results[0], result)
	}
	assert.Equal(t, 3, Of(&m, key{2}, func() int { return 1 + Of(&m, key{3}, func() int { return 2 }) }))
	assert.Panics(t, func() { Of(&m, key{4}, func() int { panic("once") }) })
	assert.Equal(t, 4, Of(&m, key{4}, func() int { return 4 }))
}
