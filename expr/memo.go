package expr

import (
	"sync"

	"github.com/graphrun/graphrun/tensor"
)

// memo keeps what is derived from an immutable object, by a key that names the derivation. A graph is lowered again for
// each size of its inputs, and derives the same programs from the same codes. The zero value is ready to use.
type memo struct {
	mu      sync.Mutex
	derived map[any]any
}

// Derived returns what derive returned for the key the first time. Packages keep with a code what they derive from it, by
// keys of types of their own. Results are shared between goroutines and must not be changed. It returns nil for a nil
// code or function.
func (c *Code) Derived(key any, derive func() any) any {
	if c == nil || derive == nil {
		return nil
	}
	return memoized(&c.memo, key, derive)
}

// memoized returns what derive returned for the key the first time. Results are shared and must not be changed.
func memoized[T any](m *memo, key any, derive func() T) T {
	m.mu.Lock()
	known, ok := m.derived[key]
	m.mu.Unlock()
	if ok {
		return known.(T)
	}
	created := derive()
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.derived[key]; ok { // of another goroutine
		return known.(T)
	}
	if m.derived == nil {
		m.derived = map[any]any{}
	}
	m.derived[key] = created
	return created
}

// joining has the codes of [Joining].
var joining memo

// joiningKey is the key of a code in joining.
type joiningKey struct {
	op    Op
	dtype tensor.DType
}
