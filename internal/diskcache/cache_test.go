package diskcache_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/diskcache"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

func keyOf(text string) diskcache.Key { return sha256.Sum256([]byte(text)) }

// open returns a cache that fails the test on a warning.
func open(t testing.TB, dir string) *diskcache.Cache {
	return diskcache.Open(dir, diskcache.Options{Warn: func(err error) { t.Error(err) }})
}

// entries returns the paths of all files in a directory.
func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return list
}

func TestEntries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	data := bytes.Repeat([]byte("weights "), 5000)
	c := open(t, dir)
	require.Nil(t, c.Find(keyOf("a")))
	s := c.Add(keyOf("a"), data)
	require.Equal(t, data, s.Bytes())
	require.Zero(t, uintptr(unsafe.Pointer(&s.Bytes()[0]))%tensor.Align)
	require.Same(t, s, c.Find(keyOf("a")), "an entry is mapped once")
	require.Equal(t, keyOf("a"), c.ContentKey(s))
	require.Equal(t, data, open(t, dir).Find(keyOf("a")).Bytes(), "another process")
	require.Nil(t, c.Add(keyOf("b"), nil))

	owned := tensor.NewStorage(len(data))
	copy(owned.Bytes(), data)
	shared := c.Share(owned)
	require.NotSame(t, owned, shared)
	require.Equal(t, data, shared.Bytes())
	require.Same(t, shared, c.Share(shared))
	require.Len(t, entries(t, dir), 2)

	var none *diskcache.Cache
	require.Nil(t, none.Find(keyOf("a")))
	require.Nil(t, none.Add(keyOf("a"), data))
}

// TestChangedByte changes bytes of an entry: every change is found, and Add replaces the file.
func TestChangedByte(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i * 7)
	}
	open(t, dir).Add(keyOf("a"), data)
	path := entries(t, dir)[0]
	valid, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range valid {
		for range testsize.Of(2, 20) {
			changed := bytes.Clone(valid)
			changed[i] ^= byte(1 + rand.IntN(255))
			require.NoError(t, os.WriteFile(path, changed, 0o600))
			require.Nil(t, open(t, dir).Find(keyOf("a")), "byte %d", i)
		}
	}
	require.Equal(t, data, open(t, dir).Add(keyOf("a"), data).Bytes())
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, valid, now)
}

func TestDamagedEntries(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte{1, 2, 3}, 100)
	open(t, dir).Add(keyOf("a"), data)
	path := entries(t, dir)[0]
	valid, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, n := range []int{0, 1, 16, 63, 64, 65, len(valid) - 1} {
		require.NoError(t, os.WriteFile(path, valid[:n], 0o600))
		require.Nil(t, open(t, dir).Find(keyOf("a")), "the first %d bytes", n)
	}
	for name, changed := range map[string][]byte{
		"longer":          append(bytes.Clone(valid), 0),
		"another version": append([]byte("graphrun cache 2"), valid[16:]...),
		"another key":     append(append(bytes.Clone(valid[:16]), bytes.Repeat([]byte{9}, 32)...), valid[48:]...),
	} {
		require.NoError(t, os.WriteFile(path, changed, 0o600))
		require.Nil(t, open(t, dir).Find(keyOf("a")), name)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Nil(t, open(t, dir).Find(keyOf("a")), "a directory")
}

// TestUnwritable uses a path below a file, where no user can write.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var warnings []error
	c := diskcache.Open(filepath.Join(file, "cache"), diskcache.Options{
		Warn: func(err error) { warnings = append(warnings, err) }})
	for i := range 3 {
		require.Nil(t, c.Add(keyOf(fmt.Sprint(i)), []byte("data")))
	}
	s := tensor.NewStorage(10)
	require.Same(t, s, c.Share(s))
	require.Len(t, warnings, 1)
	require.ErrorContains(t, warnings[0], "nothing more is stored")
}

func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		c := open(t, dir) // a process of its own
		group.Go(func() {
			for i := range 20 {
				data := bytes.Repeat([]byte{byte(i)}, 1000+i)
				s := c.Find(keyOf(fmt.Sprint(i)))
				if s == nil {
					s = c.Add(keyOf(fmt.Sprint(i)), data)
				}
				if s == nil || !bytes.Equal(s.Bytes(), data) {
					t.Errorf("entry %d has other data", i)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, entries(t, dir), 20, "no temporary file is left")
}

// TestSecondWriter: processes that write the same entry at the same time map one file.
func TestSecondWriter(t *testing.T) {
	dir := t.TempDir()
	first, second := open(t, dir), open(t, dir)
	require.Nil(t, second.Find(keyOf("a")))
	first.Add(keyOf("a"), []byte("data"))
	path := entries(t, dir)[0]
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, []byte("data"), second.Add(keyOf("a"), []byte("data")).Bytes())
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Len(t, entries(t, dir), 1)
}

// TestOtherData: an entry whose data the caller rejects, although its checksums are valid, is replaced.
func TestOtherData(t *testing.T) {
	dir := t.TempDir()
	cache := open(t, dir)
	rejected := cache.Add(keyOf("a"), []byte("rejected"))
	require.Equal(t, []byte("data"), cache.Add(keyOf("a"), []byte("data")).Bytes())
	require.Equal(t, []byte("data"), cache.Find(keyOf("a")).Bytes())
	require.Equal(t, []byte("data"), open(t, dir).Find(keyOf("a")).Bytes())
	require.Equal(t, []byte("rejected"), rejected.Bytes(), "readers of the replaced file keep it")
	require.Len(t, entries(t, dir), 1)
}

func TestEviction(t *testing.T) {
	dir := t.TempDir()
	c := diskcache.Open(dir, diskcache.Options{MaxBytes: 5000})
	foreign := filepath.Join(dir, "notes.txt")
	abandoned := filepath.Join(dir, "write-123.temp")
	for _, path := range []string{foreign, abandoned} {
		require.NoError(t, os.WriteFile(path, make([]byte, 9000), 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-48*time.Hour)))
	}
	var held []*tensor.Storage
	for i := range 6 {
		held = append(held, c.Add(keyOf(fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 1000)))
		require.NotNil(t, held[i])
		for _, path := range entries(t, dir) { // an hour passes
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(-time.Hour)))
		}
		require.NotNil(t, open(t, dir).Find(keyOf("0")), "its use is recorded, so it stays")
	}
	require.FileExists(t, foreign)
	require.NoFileExists(t, abandoned)
	require.Nil(t, open(t, dir).Find(keyOf("1")), "it was not used for the longest time")
	require.NotNil(t, open(t, dir).Find(keyOf("5")))
	for i, s := range held {
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, 1000), s.Bytes(), "a mapping outlives its file")
	}
	require.Nil(t, c.Add(keyOf("large"), make([]byte, 5000)), "larger than the cache")
}

// TestMappingEnds checks that a mapping ends when its storage is unreachable, and that the entry is then mapped again.
func TestMappingEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	c := open(t, dir)
	require.NotNil(t, c.Add(keyOf("a"), make([]byte, 1<<16)))
	isMapped := func() bool {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return bytes.Contains(maps, []byte(dir))
	}
	require.Eventually(t, func() bool { debug.FreeOSMemory(); return !isMapped() }, 10*time.Second, time.Millisecond)
	s := c.Find(keyOf("a"))
	require.Len(t, s.Bytes(), 1<<16)
	require.True(t, isMapped())
	runtime.KeepAlive(s)
}

// TestEvictionOfOthersEntries: the limit bounds the directory, whichever process wrote the entries.
func TestEvictionOfOthersEntries(t *testing.T) {
	dir := t.TempDir()
	bytesInDir := func() (n int64) {
		for _, path := range entries(t, dir) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			n += info.Size()
		}
		return n
	}
	const limit = 5000
	first := diskcache.Open(dir, diskcache.Options{MaxBytes: limit})
	second := diskcache.Open(dir, diskcache.Options{MaxBytes: limit})
	for i := range 10 {
		for k, c := range []*diskcache.Cache{first, second} {
			require.NotNil(t, c.Add(keyOf(fmt.Sprint(i, k)), make([]byte, 1000)))
			require.LessOrEqual(t, bytesInDir(), int64(limit))
		}
	}
	require.Greater(t, bytesInDir(), int64(limit/2))
	diskcache.Open(dir, diskcache.Options{MaxBytes: limit / 2})
	require.LessOrEqual(t, bytesInDir(), int64(limit/2), "a lower limit acts before the first write")
}
