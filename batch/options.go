package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

// Options are the options of a run. Zero values are good defaults.
type Options struct {
	// Loader loads the model. Its field FS is not used: a model reads only files in its own directory.
	Loader graphrun.Loader
	// Compile has the options for compiling the model. Compile.Threads is the maximum number of workers of one run. At
	// most GOMAXPROCS / Compile.Threads runs are active at the same time. If Compile.Hints is empty, a model that has
	// open sizes in addition to the batch size gets a second plan, for sizes of at least 200. The nearest plan serves an
	// input.
	Compile graphrun.Options
	// Images describes the conversion of images to tensors.
	Images Images
	// Shard is the index, from 0, of the shard to run. Shards is the number of shards. If Shards is 0, all inputs are
	// run.
	Shard, Shards int
	// PartSize is the maximum size of a part: the inputs whose records are written to the manifest together. It is also
	// the maximum number of inputs that are computed but not yet recorded. 0 means 64.
	PartSize int
	// MaxRows is the maximum number of rows of a batch of several inputs. 0 means 8, because larger batches need more
	// memory and are rarely faster. A single input may have more rows.
	MaxRows int
	// Memory is the maximum total size, in bytes, of the decoded inputs that wait to be run. The results that wait to be
	// written have a separate limit of the same size. 0 means an eighth of the available memory. One input and one result
	// of any size are always admitted.
	Memory int
	// If Retry is set, inputs whose recorded result is an error are run again.
	Retry bool
	// Key is a part of the digest of the options. It must differ if passes, pins or custom ops differ, because the digest
	// has no other information about them.
	Key string
	// Progress, if set, is called when an input is finished. done counts the inputs that this run has computed and the
	// inputs that failed. skipped counts the inputs that earlier runs have finished. total counts all inputs of the shard.
	// Progress is called from several goroutines, one at a time.
	Progress func(done, skipped, total int)
}

// Summary counts the inputs of a shard by their result.
type Summary struct {
	Done    int // inputs that this run has computed; for [Status]: finished inputs
	Skipped int // inputs that earlier runs have finished
	Failed  int // inputs that failed in this run or in earlier runs
	Missing int // inputs that are not finished
	// Failures are the failed inputs with their errors, sorted by name.
	Failures []Failure
	// Unjoined is the reason why each input is run separately; nil if rows of several inputs run together.
	Unjoined error
}

// Failure is an input that failed.
type Failure struct{ Input, Error string }

// Input is an input file.
type Input struct {
	Name string // a slash-separated path; the output is DIR/NAME.npz
	Path string
}

// Find returns the files that match patterns of [filepath.Match], sorted by name. The name of an input is its path
// without the extension, relative to the longest leading directory of the pattern that has no special characters:
// "images/*/*.jpg" gives "cat/1" for "images/cat/1.jpg". Two inputs with the same name are an error.
func Find(patterns ...string) (list []Input, err error) {
	byName := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%q is not a valid pattern", pattern)
		}
		dir := fixedDirectory(pattern)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				continue
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return nil, err
			}
			name = filepath.ToSlash(strings.TrimSuffix(name, filepath.Ext(name)))
			other, exists := byName[name]
			switch {
			case exists && other == path: // two patterns match the file
				continue
			case exists:
				return nil, fmt.Errorf("%s and %s would have the same output, %s.npz", other, path, name)
			case name == "" || strings.HasSuffix(name, "/"):
				return nil, fmt.Errorf("%s: the output would have no name: the name of the file is only an extension", path)
			case strings.HasPrefix(name, ".graphrun/"):
				return nil, fmt.Errorf("%s: the output would be in the directory .graphrun, which has the manifests", path)
			}
			byName[name] = path
			list = append(list, Input{name, path})
		}
	}
	sorted.Func(list, func(a, b Input) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// fixedDirectory returns the longest leading directory of a pattern that has no special characters.
func fixedDirectory(pattern string) string {
	special := `*?[\`
	if os.PathSeparator == '\\' { // on Windows, \ does not escape characters
		special = `*?[`
	}
	dir := pattern
	for {
		dir = filepath.Dir(dir)
		if !strings.ContainsAny(dir, special) {
			return dir
		}
	}
}

// shardOf returns the index of the shard of the input with the given name.
func shardOf(name string, shards int) int {
	digest := sha256.Sum256([]byte(name))
	return int(binary.BigEndian.Uint64(digest[:8]) % uint64(shards))
}

// complete sets defaults and checks the options.
func (o *Options) complete() error {
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.Shards < 1 || o.Shard < 0 || o.Shard >= o.Shards {
		return fmt.Errorf("shard %d of %d does not exist: shards are numbered from 0", o.Shard, o.Shards)
	}
	if o.PartSize < 0 || o.MaxRows < 0 || o.Memory < 0 {
		return fmt.Errorf("PartSize, MaxRows and Memory must not be negative")
	}
	if o.PartSize == 0 {
		o.PartSize = 64
	}
	if o.MaxRows == 0 {
		o.MaxRows = plannedRows
	}
	if o.Memory == 0 {
		o.Memory = max(machine.Memory().Available/8, 1<<20)
	}
	return o.Images.Check()
}

// inShard returns the inputs of the shard.
func (o *Options) inShard(inputs []Input) []Input {
	var list []Input
	for _, in := range inputs {
		if shardOf(in.Name, o.Shards) == o.Shard {
			list = append(list, in)
		}
	}
	return list
}

// digest returns the digest of the model and of all options that affect results.
func (o *Options) digest(model string) string {
	strategy := graphrun.Optimal.Name()
	if o.Compile.Strategy != nil {
		strategy = o.Compile.Strategy.Name()
	}
	prices := ""
	if o.Compile.Costs != nil {
		prices = o.Compile.Costs.Digest()
	}
	return machine.DigestOfJSON(struct {
		Model, Strategy, Prices, Key, Version string
		Device                                string `json:",omitzero"`
		Exact, NoFusion                       bool
		Slack                                 float64
		Sizes                                 []map[string]int
		Hints                                 []map[string]int `json:",omitzero"`
		Images                                Images
	}{model, strategy, prices, o.Key, environment.Version(), o.Compile.Device, o.Compile.Exact, o.Compile.NoFusion,
		o.Compile.Slack, []map[string]int{o.Loader.Sizes, o.Compile.Sizes}, o.Compile.Hints, o.Images})
}
