package tensor

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
)

// Texts are strings and their codes. A tensor of strings is an int64 tensor of codes, so that operators compare and
// move strings without special code. The code of a listed string is its index in the list. The code of any other string
// is negative, a hash of 63 bits: equal strings have equal codes in all tensors of the process, and different strings
// have different codes, except for two that are not listed with a probability of 2^-63.
//
// Texts may be used by several goroutines at once. The zero Texts has no strings.
type Texts struct {
	listed *listedTexts
	lock   sync.RWMutex
	others map[int64]string // by code: strings that are not listed
}

// listedTexts is a list of strings, which several Texts share.
type listedTexts struct {
	list  []string
	index func() map[string]int64
}

// NewTexts returns texts with the given list, which it does not copy.
func NewTexts(list []string) *Texts {
	return &Texts{listed: &listedTexts{list: list, index: sync.OnceValue(func() map[string]int64 {
		index := make(map[string]int64, len(list))
		for i, s := range list {
			index[s] = int64(i)
		}
		return index
	})}}
}

// Enlist returns the code of a string, and adds the string at the end of the list if it is new. The reader of a graph
// calls it before anything else uses x.
func (x *Texts) Enlist(s string) int64 {
	if x.listed == nil {
		x.listed = NewTexts(nil).listed
	}
	index := x.listed.index()
	code, ok := index[s]
	if !ok {
		code = int64(len(x.listed.list))
		index[s], x.listed.list = code, append(x.listed.list, s)
	}
	return code
}

// List returns the listed strings, not a copy.
func (x *Texts) List() []string {
	if x.listed == nil {
		return nil
	}
	return x.listed.list
}

// HasListOf reports whether x and other have the same list, so that the same codes stand for the same strings.
func (x *Texts) HasListOf(other *Texts) bool {
	if x == nil || other == nil {
		return x == other
	}
	return x.listed == other.listed || slices.Equal(x.List(), other.List())
}

// With returns new texts with the list of x and with the strings of tensors ([Tensor.Texts]) that are not listed.
func (x *Texts) With(tensors ...*Tensor) *Texts {
	joined := &Texts{listed: x.listed}
	for _, t := range tensors {
		if from := t.Texts(); from != nil {
			from.lock.RLock()
			if joined.others == nil && len(from.others) > 0 {
				joined.others = make(map[int64]string, len(from.others))
			}
			maps.Copy(joined.others, from.others)
			from.lock.RUnlock()
		}
	}
	return joined
}

// Keep returns new texts with the list of x, and with the other strings of x whose codes are elements of the tensors,
// which must be int64. Results of runs that become inputs of the next runs thus keep no strings that have no element.
// Nil texts stay nil, and a nil tensor has no elements.
func (x *Texts) Keep(tensors ...*Tensor) *Texts {
	if x == nil {
		return nil
	}
	kept := &Texts{listed: x.listed}
	x.lock.RLock()
	defer x.lock.RUnlock()
	if len(x.others) == 0 {
		return kept
	}
	kept.others = map[int64]string{}
	const codeBytes, blockBytes = 8, 64 << 10
	for _, t := range tensors {
		if t == nil || t.DType != Int64 {
			continue
		}
		_ = t.EachBlock(blockBytes, func(block []byte) error { // the function returns no error
			for ; len(block) > 0; block = block[codeBytes:] {
				code := int64(binary.NativeEndian.Uint64(block))
				if s, ok := x.others[code]; ok {
					kept.others[code] = s
				}
			}
			return nil
		})
	}
	return kept
}

// codeSeed determines the codes of strings that are not listed. It differs between processes, so that nobody can
// prepare strings of equal codes.
var codeSeed = maphash.MakeSeed()

// Code returns the code of a string, and adds the string if it is new.
func (x *Texts) Code(s string) int64 {
	if x.listed != nil {
		if code, ok := x.listed.index()[s]; ok {
			return code
		}
	}
	code := -1 - int64(maphash.String(codeSeed, s)>>1)
	x.lock.RLock()
	_, known := x.others[code]
	x.lock.RUnlock()
	if !known {
		x.lock.Lock()
		defer x.lock.Unlock()
		if x.others == nil {
			x.others = map[int64]string{}
		}
		x.others[code] = s
	}
	return code
}

// Text returns the string of a code, if any. Nil texts have none.
func (x *Texts) Text(code int64) (s string, ok bool) {
	if x == nil {
		return "", false
	}
	if code >= 0 {
		if list := x.List(); code < int64(len(list)) {
			return list[code], true
		}
		return "", false
	}
	x.lock.RLock()
	defer x.lock.RUnlock()
	s, ok = x.others[code]
	return s, ok
}

// Texts returns the strings of the codes in the tensor's storage, as [Tensor.SetTexts] recorded them, or nil. They may
// include other strings.
func (t *Tensor) Texts() *Texts {
	if t == nil || t.storage == nil {
		return nil
	}
	return t.storage.texts.Load()
}

// SetTexts records the strings of the codes in the tensor's storage, for all tensors that share the storage.
func (t *Tensor) SetTexts(texts *Texts) {
	if t != nil && t.storage != nil {
		t.storage.texts.Store(texts)
	}
}
