package serve

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// saveNetwork writes a network with random weights in a safetensors file.
func saveNetwork(t *testing.T, path string) {
	t.Helper()
	g, r := networks.Bottlenecks(32, 1, 1), rand.New(rand.NewPCG(1, 2))
	for _, v := range g.Constants {
		data := make([]float32, v.Const.Numel())
		for i := range data {
			data[i] = (r.Float32() - 0.5) / 5
		}
		v.Const = tensor.Must(tensor.FromSlice(data, v.Const.Shape...))
	}
	require.NoError(t, g.Bind(map[string]int{"H": 16, "W": 16}))
	write := func(path string, names []string, data []*tensor.Tensor) error {
		var entries []safetensors.Entry
		for i, name := range names {
			entries = append(entries, safetensors.Entry{Name: name, Tensor: data[i]})
		}
		return safetensors.WriteFile(path, entries, nil)
	}
	require.NoError(t, graphfile.SaveFile(path, g,
		graphfile.SideFile("net.safetensors", func(*graph.Value) bool { return true }, write)))
}

// TestChangedFiles overwrites and truncates the files of a model while requests run, with and without a cache. Then a
// server with the filled cache gives the same results.
func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	cache := graphrun.OpenCache(filepath.Join(dir, "cache"), graphrun.CacheOptions{Warn: func(err error) { t.Error(err) }})
	path := filepath.Join(dir, "net.json")
	var want [][]float32
	for _, o := range []graphrun.Options{{}, {Cache: cache}, {Cache: cache}} {
		saveNetwork(t, path)
		s := open(t, Options{Compile: o, MaxRows: 8}, path)
		ask := func(i int) []float32 {
			data := make([]float32, (1+i%3)*3*16*16)
			for k := range data {
				data[k] = float32((k*(i+3))%17) / 8
			}
			body, header := binaryRequest(data, 1+i%3, 3, 16, 16)
			w := call(s, "POST", "/v2/models/net/infer", body, header...)
			if w.Code != 200 {
				t.Errorf("%d: %s", w.Code, w.Body)
				return nil
			}
			return floatsOf(t, w)
		}
		for i := len(want); i < 6; i++ {
			want = append(want, ask(i))
		}
		var clients sync.WaitGroup
		stop := make(chan struct{})
		for i := range want {
			clients.Go(func() {
				for {
					if !slices.Equal(want[i], ask(i)) {
						t.Error("another result")
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for _, name := range []string{"net.json", "net.safetensors"} {
			file := filepath.Join(dir, name)
			info, err := os.Stat(file)
			require.NoError(t, err)
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.Write(make([]byte, info.Size()/2))
			require.NoError(t, err)
			require.NoError(t, f.Truncate(0))
			require.NoError(t, f.Close())
			for range 2 {
				assert.NoError(t, s.Reload(t.Context())) // the log has the error; the old model answers
			}
		}
		close(stop)
		clients.Wait()
		require.NoError(t, s.Drain(t.Context()))
	}
}
