// Package lru implements an LRU cache with bounds on the number and the total size of its values.
package lru

import (
	"container/list"
	"math"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
)

// Cache is an LRU cache. It evicts the least recently used values when their number or their total size exceeds a
// bound. An evicted value stays valid for its users. A Cache is safe for concurrent use. Number and Bytes must be set
// before the first use.
type Cache[K, V comparable] struct {
	// Number is the maximum number of values.
	Number int
	// Bytes is the maximum total size of all values. 0 means half of the memory that the process may still allocate when
	// the cache first exceeds 64 MiB.
	Bytes int

	mu       sync.Mutex
	elements map[K]*list.Element // the element of order for each key
	order    list.List           // elements are *entry[K, V], the most recently used first
	bytes    int                 // total size of all values with a size
}

type entry[K, V comparable] struct {
	key   K
	value V
	size  int // in bytes; 0 until Cache.Count
}

// uncheckedBytes is the total size up to which the available memory is not queried, because the query takes time.
const uncheckedBytes = 64 << 20

// Find returns the value of a key, and marks it as the most recently used. It does not allocate.
func (c *Cache[K, V]) Find(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.elements[key]
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Put sets the value of a key, unless the key has a value, and returns the key's value. The value has no size until
// [Cache.Count], because it may not be computed yet.
func (c *Cache[K, V]) Put(key K, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.elements[key]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*entry[K, V]).value
	}
	if c.elements == nil {
		c.elements = map[K]*list.Element{}
	}
	c.elements[key] = c.order.PushFront(&entry[K, V]{key: key, value: v})
	return v
}

// Count sets the size of value v in bytes, and evicts other values if a bound is exceeded. It must be called once for
// each value, after the value is computed. It has no effect if the value was evicted meanwhile.
func (c *Cache[K, V]) Count(key K, v V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.elements[key]
	if counted == nil || counted.Value.(*entry[K, V]).value != v {
		return
	}
	bytes = min(bytes, math.MaxInt-c.bytes)
	counted.Value.(*entry[K, V]).size = bytes
	c.bytes += bytes
	for e := c.order.Back(); e != nil && (c.order.Len() > c.Number || c.bytes > c.limit()); {
		before := e.Prev()
		if e != counted {
			c.remove(e)
		}
		e = before
	}
}

// limit returns the maximum total size.
func (c *Cache[K, V]) limit() int {
	if c.Bytes == 0 {
		if c.bytes < uncheckedBytes {
			return uncheckedBytes
		}
		c.Bytes = max(machine.Memory().Left/2, uncheckedBytes)
	}
	return c.Bytes
}

// Drop removes a key if its value is v, for example because v could not be computed.
func (c *Cache[K, V]) Drop(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.elements[key]; e != nil && e.Value.(*entry[K, V]).value == v {
		c.remove(e)
	}
}

func (c *Cache[K, V]) remove(e *list.Element) {
	x := c.order.Remove(e).(*entry[K, V])
	delete(c.elements, x.key)
	c.bytes -= x.size
}

// Clear removes all values, and reports whether a removed value had a size.
func (c *Cache[K, V]) Clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.bytes > 0
	clear(c.elements)
	c.order.Init()
	c.bytes = 0
	return held
}
