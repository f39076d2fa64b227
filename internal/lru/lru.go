// Package lru implements an LRU cache with bounds on the number and the bytes of its values.
package lru

import (
	"container/list"
	"math"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
)

// Cache keeps values by their keys, within bounds on their number and on the bytes that they hold; what was used least
// recently goes first. Whoever still uses a value that went goes on with it. It is safe for concurrent use; Number and
// Bytes are set before.
type Cache[K, V comparable] struct {
	// Number is the most values that are kept, for small ones, which Bytes does not bound.
	Number int
	// Bytes is the most that values hold; 0: half of what the process may have when more than some 64 MiB are first
	// wanted, for what is kept comes on top of what runs.
	Bytes int

	mu   sync.Mutex
	of   map[K]*list.Element
	used list.List // of *entry[K, V], the latest first
	held int       // bytes
}

type entry[K, V comparable] struct {
	key   K
	value V
	bytes int // 0 until it is counted
}

// unasked is the number of bytes below which nobody asks what the process may have.
const unasked = 64 << 20

// Find returns the value of a key, and marks it as the latest used. It allocates nothing.
func (c *Cache[K, V]) Find(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.of[key]
	if e == nil {
		return v, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Put gives a key a value, unless it has one, and returns what it has. The value counts for nothing until
// [Cache.Count]: it may be yet to be made.
func (c *Cache[K, V]) Put(key K, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.of[key]; e != nil {
		c.used.MoveToFront(e)
		return e.Value.(*entry[K, V]).value
	}
	if c.of == nil {
		c.of = map[K]*list.Element{}
	}
	c.of[key] = c.used.PushFront(&entry[K, V]{key: key, value: v})
	return v
}

// Count tells what a value holds, once, now that it is made, and drops others where that is too much. A value that was
// dropped meanwhile does not count.
func (c *Cache[K, V]) Count(key K, v V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.of[key]
	if counted == nil || counted.Value.(*entry[K, V]).value != v {
		return
	}
	bytes = min(bytes, math.MaxInt-c.held)
	counted.Value.(*entry[K, V]).bytes = bytes
	c.held += bytes
	for e := c.used.Back(); e != nil && (c.used.Len() > c.Number || c.held > c.most()); {
		before := e.Prev()
		if e != counted {
			c.remove(e)
		}
		e = before
	}
}

// most returns the bytes that may be held.
func (c *Cache[K, V]) most() int {
	if c.Bytes == 0 {
		if c.held < unasked {
			return unasked
		}
		c.Bytes = max(machine.Memory().Left/2, unasked)
	}
	return c.Bytes
}

// Drop forgets a value, such as one that could not be made, if the key still has it.
func (c *Cache[K, V]) Drop(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.of[key]; e != nil && e.Value.(*entry[K, V]).value == v {
		c.remove(e)
	}
}

func (c *Cache[K, V]) remove(e *list.Element) {
	x := c.used.Remove(e).(*entry[K, V])
	delete(c.of, x.key)
	c.held -= x.bytes
}

// Clear forgets everything, and reports whether that held anything.
func (c *Cache[K, V]) Clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held > 0
	clear(c.of)
	c.used.Init()
	c.held = 0
	return held
}
