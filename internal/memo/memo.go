// Package memo keeps what is derived from an immutable object, such as the loops of an expression.
package memo

import "sync"

// Memo has derived values by key. A key is comparable, and names the derivation. The zero value is ready to use. A Memo
// is safe for concurrent use. It is not a sync.Map: the generic map inside sync.Map would be compiled again in every
// package that uses it.
type Memo struct {
	mu     sync.RWMutex
	values map[any]any
}

// Get returns the value of a key: the result of the first call of derive for the key that ended. Goroutines that ask at
// the same time may all call derive, and get the same value. derive may call Get. Values are shared and must not be
// changed.
func (m *Memo) Get(key any, derive func() any) any {
	m.mu.RLock()
	known, ok := m.values[key]
	m.mu.RUnlock()
	if ok {
		return known
	}
	derived := derive() // the lock is not held, because derive may take long or call Get
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.values[key]; ok { // of another goroutine
		return known
	}
	if m.values == nil {
		m.values = map[any]any{}
	}
	m.values[key] = derived
	return derived
}

// Of is [Memo.Get] for values of one type.
func Of[T any](m *Memo, key any, derive func() T) T {
	return m.Get(key, func() any { return derive() }).(T)
}
