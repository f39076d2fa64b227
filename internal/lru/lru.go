// Package lru implements an LRU cache with bounds on the number and the total size of its values.
package lru

import (
	"container/list"
	"math"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
)

// Cache is an LRU cache. SetSize evicts the least recently used values if their number or their total size exceeds a
// bound. An evicted value stays valid for its users. A Cache is safe for concurrent use. It is an interface, not a
// generic struct, because each package that uses a generic struct compiles all of its methods again.
type Cache[K, V comparable] interface {
	// Find returns the value of a key, and marks it as the most recently used. It does not allocate.
	Find(key K) (v V, ok bool)
	// Put returns the value of a key. If the key has no value, Put first sets it to v. A value has no size until
	// SetSize is called, because it may not be computed yet.
	Put(key K, v V) V
	// SetSize sets the size of value v in bytes, and evicts other values if a bound is exceeded. It must be called once
	// for each value, after the value is computed. It has no effect if the value has been evicted.
	SetSize(key K, v V, bytes int)
	// Drop removes a key if its value is v, for example because v could not be computed.
	Drop(key K, v V)
	// Clear removes all values, and reports whether a removed value had a size.
	Clear() (hadSize bool)
}

// New returns a cache with bounds on the number of values and on their total size in bytes. If maxBytes is 0, the bound
// is set when the total size first exceeds 64 MiB: half of the memory that is still available then.
func New[K, V comparable](maxValues, maxBytes int) Cache[K, V] {
	return NewWithIdle[K, V](maxValues, maxBytes, maxValues, nil)
}

// NewWithIdle returns a cache that calls onIdle with a value when recentCount other values have been used since the
// last use of this value, and when the value has been evicted. onIdle must not use the cache.
func NewWithIdle[K, V comparable](maxValues, maxBytes, recentCount int, onIdle func(v V, isEvicted bool)) Cache[K, V] {
	return &cache[K, V]{maxValues: maxValues, maxBytes: maxBytes, recentCount: recentCount, onIdle: onIdle,
		elements: map[K]*list.Element{}}
}

// cache implements Cache. The fields before mu are the parameters of NewWithIdle.
type cache[K, V comparable] struct {
	maxValues   int
	maxBytes    int // 0 until it is known
	recentCount int
	onIdle      func(v V, isEvicted bool) // nil if there is nothing to do

	mu         sync.Mutex
	elements   map[K]*list.Element // the element of order for each key
	order      list.List           // elements are *entry[K, V], the most recently used first
	totalBytes int                 // sum of the sizes of all values
}

// entry is a value in the cache.
type entry[K, V comparable] struct {
	key   K
	value V
	size  int // in bytes; 0 until Cache.SetSize
}

func (c *cache[K, V]) Find(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.elements[key]
	if element == nil {
		return v, false
	}
	c.moveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

func (c *cache[K, V]) Put(key K, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.elements[key]; element != nil {
		c.moveToFront(element)
		return element.Value.(*entry[K, V]).value
	}
	element := c.order.PushBack(&entry[K, V]{key: key, value: v}) // as the least recently used
	c.elements[key] = element
	c.moveToFront(element)
	return v
}

func (c *cache[K, V]) SetSize(key K, v V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sized := c.elements[key]
	if sized == nil || sized.Value.(*entry[K, V]).value != v {
		return
	}
	bytes = min(bytes, math.MaxInt-c.totalBytes) // the total must not overflow
	sized.Value.(*entry[K, V]).size = bytes
	c.totalBytes += bytes
	c.evictExcept(sized)
}

// evictExcept removes the least recently used elements, except one, until the cache is within its bounds.
func (c *cache[K, V]) evictExcept(kept *list.Element) {
	for element := c.order.Back(); element != nil && (c.order.Len() > c.maxValues || c.totalBytes > c.limit()); {
		previous := element.Prev()
		if element != kept {
			c.remove(element)
			c.freeEvicted(element)
		}
		element = previous
	}
}

// freeEvicted calls onIdle with the value of an evicted element.
func (c *cache[K, V]) freeEvicted(element *list.Element) {
	if c.onIdle != nil {
		c.onIdle(element.Value.(*entry[K, V]).value, true)
	}
}

// uncheckedBytes is the total size up to which the available memory is not queried, because the query takes time.
const uncheckedBytes = 64 << 20

// limit returns the maximum total size in bytes.
func (c *cache[K, V]) limit() int {
	if c.maxBytes == 0 {
		if c.totalBytes < uncheckedBytes {
			return uncheckedBytes
		}
		c.maxBytes = max(machine.Memory().Available/2, uncheckedBytes)
	}
	return c.maxBytes
}

func (c *cache[K, V]) Drop(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.elements[key]; element != nil && element.Value.(*entry[K, V]).value == v {
		c.remove(element)
	}
}

// remove removes an element. The lock must be held.
func (c *cache[K, V]) remove(element *list.Element) {
	removed := c.order.Remove(element).(*entry[K, V])
	delete(c.elements, removed.key)
	c.totalBytes -= removed.size
}

func (c *cache[K, V]) Clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	hadSize := c.totalBytes > 0
	for element := c.order.Front(); element != nil; element = element.Next() {
		c.freeEvicted(element)
	}
	clear(c.elements)
	c.order.Init()
	c.totalBytes = 0
	return hadSize
}

// moveToFront marks an element as the most recently used. If it was not among the first c.recentCount elements, the
// last of these elements becomes idle. For example, if recentCount is 2 and y moves to the front of w, x, y, z, then
// the order is y, w, x, z, and x becomes idle.
func (c *cache[K, V]) moveToFront(element *list.Element) {
	if c.onIdle == nil {
		c.order.MoveToFront(element)
		return
	}
	last := c.order.Front()
	for i := 1; i < c.recentCount && last != nil && last != element; i++ {
		last = last.Next()
	}
	c.order.MoveToFront(element)
	if last != nil && last != element {
		c.onIdle(last.Value.(*entry[K, V]).value, false)
	}
}
