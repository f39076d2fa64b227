// Package diskcache stores the results of expensive computations as immutable files, which processes map and share.
//
// An entry has a key, which identifies the computation and all its operands. An entry is written to a temporary file,
// synced and renamed, so that a file with the name of an entry is complete. The size and the checksums of an entry are
// verified before it is mapped. A damaged entry counts as missing. [Cache.Add] replaces a damaged entry and an entry
// with other data. If several processes write the same entry at the same time, the first file stays, and all processes
// map this file.
package diskcache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"weak"

	"github.com/edsrzf/mmap-go"

	"github.com/graphrun/graphrun/tensor"
)

// MinBytes is the minimum size in bytes of data that are stored. A file with less data would cost more than it saves.
const MinBytes = 16 << 10

// Key identifies an entry.
type Key [sha256.Size]byte

// NewHash returns a hash whose sum is a key. Keys of different kinds, such as "plan", do not collide.
func NewHash(kind string) hash.Hash {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(kind), kind)
	return h
}

// KeyOf returns the sum of a hash that [NewHash] made, as a key.
func KeyOf(h hash.Hash) Key { return Key(h.Sum(nil)) }

// Options are the options of a cache. Zero values are good defaults.
type Options struct {
	// MaxBytes is the maximum total size of the entries; 0 means 16 GiB. The least recently used entries are removed
	// first.
	MaxBytes int64
	// Warn is called once, with the first error of a write. Nothing is written after this error. If Warn is nil,
	// package slog logs the error.
	Warn func(error)
}

// Cache is a directory of entries. It may be used from several goroutines and processes at once. For a nil *Cache, Find
// and Add return nil, and the other methods panic.
type Cache struct {
	dir     string
	options Options

	mu             sync.Mutex
	mapped         map[Key]weak.Pointer[tensor.Storage] // the entries in memory
	keys           map[weak.Pointer[tensor.Storage]]Key // of mapped entries and of hashed contents
	purgeThreshold int                                  // above this number, keys of collected storages are dropped
	frozen         bool                                 // a write failed, so nothing more is written

	evicting sync.Mutex // held by evict
}

// Open returns the cache in a directory. The first write creates the directory. Open does not fail: without access to
// the directory, the cache is empty and stores nothing.
func Open(dir string, options Options) *Cache {
	if options.MaxBytes <= 0 {
		options.MaxBytes = 16 << 30
	}
	if options.Warn == nil {
		options.Warn = func(err error) { slog.Warn(err.Error()) }
	}
	c := &Cache{dir: dir, options: options, mapped: map[Key]weak.Pointer[tensor.Storage]{},
		keys: map[weak.Pointer[tensor.Storage]]Key{}}
	c.evict() // a process with a higher limit may have written the entries
	return c
}

// Find returns the data of an entry, which must not be written. The process maps an entry once. The mapping ends when
// its storage is unreachable. Find returns nil if there is no valid entry.
func (c *Cache) Find(key Key) *tensor.Storage {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	storage := c.mapped[key].Value()
	c.mu.Unlock()
	if storage != nil {
		return storage
	}
	mapping, err := openEntry(c.path(key), key)
	if err != nil {
		return nil
	}
	storage = tensor.StorageOf(mapping[headerSize:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.mapped[key].Value(); other != nil { // another goroutine has mapped the entry first
		_ = mapping.Unmap()
		return other
	}
	runtime.AddCleanup(storage, func(mapping mmap.MMap) { _ = mapping.Unmap() }, mapping)
	c.mapped[key] = weak.Make(storage)
	c.setKey(storage, key)
	return storage
}

// Add writes an entry, and returns its data as [Cache.Find] does. It keeps an entry that has the same data, and
// replaces an entry that has other data. It returns nil if the entry cannot be written.
func (c *Cache) Add(key Key, data []byte) *tensor.Storage {
	if c == nil || c.isFrozen() || len(data) == 0 || headerSize+int64(len(data)) > c.options.MaxBytes {
		return nil
	}
	storage, err := c.write(key, data)
	if err != nil {
		c.freeze(err)
		return nil
	}
	c.evict()
	return storage
}

// forget makes the next Find of an entry map its file again.
func (c *Cache) forget(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mapped, key)
}

// isFrozen reports whether a write failed, so that nothing more is written.
func (c *Cache) isFrozen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen
}

// freeze ends writing, with a warning.
func (c *Cache) freeze(err error) {
	c.mu.Lock()
	first := !c.frozen
	c.frozen = true
	c.mu.Unlock()
	if first {
		c.options.Warn(fmt.Errorf("cache %s: nothing more is stored: %w", c.dir, err))
	}
}

// ContentKey returns a key of the contents of a storage: the key of the entry from which it is mapped, or a digest of
// its bytes. The contents must not change afterwards.
func (c *Cache) ContentKey(storage *tensor.Storage) Key {
	c.mu.Lock()
	key, ok := c.keys[weak.Make(storage)]
	c.mu.Unlock()
	if ok {
		return key
	}
	h := NewHash("contents")
	h.Write(storage.Bytes())
	key = KeyOf(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setKey(storage, key)
	return key
}

// Share returns a storage with the same contents that is mapped from an entry. If there is no entry and none can be
// written, it returns `storage` itself.
func (c *Cache) Share(storage *tensor.Storage) *tensor.Storage {
	key := c.ContentKey(storage)
	if shared := c.Find(key); shared != nil {
		return shared
	}
	if shared := c.Add(key, storage.Bytes()); shared != nil {
		return shared
	}
	return storage
}

// ShareRange returns a number of bytes of a file, starting at the given offset. The bytes are mapped from an entry. If
// there is an entry, no memory for the bytes is allocated: they are only hashed. If there is no entry and none can be
// written, the bytes are in new memory.
func (c *Cache) ShareRange(src io.ReaderAt, offset int64, bytes int) (_ *tensor.Storage, err error) {
	defer tensor.CatchMemory(&err)
	hash := NewHash("contents")
	if _, err := io.CopyBuffer(hash, onlyReader{io.NewSectionReader(src, offset, int64(bytes))},
		make([]byte, min(max(bytes, 1), bufferSize))); err != nil {
		return nil, err
	}
	if storage := c.Find(KeyOf(hash)); storage != nil && storage.Len() == bytes {
		return storage, nil
	}
	storage := tensor.NewStorage(bytes)
	if _, err := io.ReadFull(io.NewSectionReader(src, offset, int64(bytes)), storage.Bytes()); err != nil {
		return nil, err
	}
	return c.Share(storage), nil // Share hashes again, because the file may have changed since the first hash
}

// onlyReader hides all methods except Read, so that [io.CopyBuffer] uses its buffer.
type onlyReader struct{ io.Reader }

// setKey records the key of a storage. If many keys are recorded, it first removes the keys of garbage-collected
// storages. The caller has the lock.
func (c *Cache) setKey(mapped *tensor.Storage, key Key) {
	if len(c.keys) > c.purgeThreshold {
		for storage := range c.keys {
			if storage.Value() == nil {
				delete(c.keys, storage)
			}
		}
		for key, storage := range c.mapped {
			if storage.Value() == nil {
				delete(c.mapped, key)
			}
		}
		c.purgeThreshold = 2*len(c.keys) + 64
	}
	c.keys[weak.Make(mapped)] = key
}

// name returns the name of an entry's file.
func (k Key) name() string { return hex.EncodeToString(k[:]) + entrySuffix }
