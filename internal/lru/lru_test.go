package lru

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The least recently used values are dropped first.
func TestBytesAreBounded(t *testing.T) {
	c := New[int, *int](256, 10*2<<10).(*cache[int, *int])
	for n := range 30 {
		v := new(int)
		require.Same(t, v, c.Put(n, v))
		c.SetSize(n, v, 2<<10)
		c.Find(0)
	}
	assert.Equal(t, 10, c.order.Len())
	assert.Equal(t, 10, len(c.elements))
	assert.LessOrEqual(t, c.totalBytes, c.maxBytes)
	has := func(n int) bool { _, ok := c.Find(n); return ok }
	assert.True(t, has(0), "it was used all the time")
	assert.False(t, has(5))
	assert.True(t, has(29))
}

func TestNumberIsBounded(t *testing.T) {
	c := New[int, *int](3, 0).(*cache[int, *int])
	for n := range 9 {
		v := new(int)
		c.Put(n, v)
		c.SetSize(n, v, 0)
	}
	assert.Equal(t, 3, c.order.Len())
	assert.False(t, c.Clear(), "nothing was held")
	assert.Empty(t, c.elements)
}

// SetSize and Drop ignore a value that is not the value of its key. A value larger than the limit evicts the others,
// and the sum of the sizes does not overflow.
func TestOthersValues(t *testing.T) {
	c := New[string, *int](8, 100).(*cache[string, *int])
	a, b := new(int), new(int)
	require.Same(t, a, c.Put("k", a))
	require.Same(t, a, c.Put("k", b))
	c.SetSize("k", b, 1000)
	c.Drop("k", b)
	assert.Zero(t, c.totalBytes)
	c.SetSize("k", a, math.MaxInt)
	c.Put("l", b)
	c.SetSize("l", b, math.MaxInt)
	_, ok := c.Find("k")
	assert.False(t, ok)
	assert.GreaterOrEqual(t, c.totalBytes, 0)
	assert.Equal(t, 1, c.order.Len())
	c.Drop("l", b)
	assert.Zero(t, c.totalBytes)
}

func TestIdle(t *testing.T) {
	var idle []int
	var evicted []int
	c := NewWithIdle[int](4, 0, 2, func(v int, isEvicted bool) {
		if isEvicted {
			evicted = append(evicted, v)
		} else {
			idle = append(idle, v)
		}
	})
	use := func(n int) {
		if _, ok := c.Find(n); !ok {
			c.Put(n, n)
		}
	}
	use(1)
	use(2)
	use(1)
	assert.Empty(t, idle)
	use(3)
	assert.Equal(t, []int{2}, idle)
	use(2)
	assert.Equal(t, []int{2, 1}, idle)
	use(3)
	use(2)
	c.Put(3, 0)
	assert.Equal(t, []int{2, 1}, idle)
	use(4)
	use(5)
	assert.Empty(t, evicted, "no value has a size")
	c.SetSize(5, 5, 1)
	assert.Equal(t, []int{1}, evicted)
	c.Clear()
	assert.ElementsMatch(t, []int{1, 2, 3, 4, 5}, evicted)
}
