package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/graphrun/graphrun/internal/printable"
	"github.com/graphrun/graphrun/internal/sorted"
)

// version is one version of a model on disk.
type version struct {
	model, name string // the name of the model, and the name of the version: a number, or "1" if the path has none
	path        string // of the file .onnx, .json or .txt
	files       signature
	conflict    error // another path has the same model and version; nil if there is none
}

// String names the version for messages.
func (v version) String() string { return fmt.Sprintf("model %q, version %s", v.model, v.name) }

// signature identifies the contents of a model by the names, sizes and modification times of its files.
type signature string

// extensions are the file extensions of models in directories.
var extensions = []string{".onnx", ".json"}

// findVersions lists the models at paths, sorted by name and version. Paths with the same model and version have one
// entry, with a conflict.
func findVersions(paths []string) (list []version, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, withoutOp(path, err)
		}
		var found []version
		switch {
		case info.IsDir():
			found, err = versionsIn(path)
		case !isModelFile(path) && !strings.EqualFold(filepath.Ext(path), ".txt"): // in a directory, .txt may be any text
			err = fmt.Errorf("%s: the path must be a model (.onnx, .json or .txt) or a directory of models",
				printable.Text(path))
		default:
			found = []version{{model: baseName(path), name: "1", path: path, files: signatureOf(path, sharedDirectory)}}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	sorted.Func(list, func(a, b version) int {
		return cmp.Or(strings.Compare(a.model, b.model), compareVersions(a.name, b.name))
	})
	unique := list[:0]
	for _, v := range list {
		if last := len(unique) - 1; last >= 0 && unique[last].model == v.model && unique[last].name == v.name {
			unique[last].conflict = fmt.Errorf("%s and %s are both %v", unique[last].path, v.path, v)
			continue
		}
		unique = append(unique, v)
	}
	return unique, nil
}

// withoutOp removes the name of the system call from an error about a path.
func withoutOp(path string, err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Errorf("%s: %w", printable.Text(path), pathError.Err)
	}
	return err
}

// isModelFile reports whether the path has the extension of a model in a directory.
func isModelFile(path string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(path)))
}

// baseName returns the name of a file without its extension.
func baseName(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

// compareVersions compares the names of versions as numbers, which have no leading zeros.
func compareVersions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// versionsIn lists the models in a directory: NAME.onnx, NAME/model.onnx and NAME/VERSION/model.onnx, and the same with
// .json. Names that begin with a dot are ignored.
func versionsIn(dir string) (list []version, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, withoutOp(dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path) // follows links
		switch {
		case strings.HasPrefix(entry.Name(), ".") || err != nil: // ignored
		case info.IsDir():
			list = append(list, versionsOf(entry.Name(), path)...)
		case isModelFile(path):
			list = append(list, version{model: baseName(path), name: "1", path: path,
				files: signatureOf(path, sharedDirectory)})
		}
	}
	return list, nil
}

// versionsOf lists the versions of a model in the model's own directory.
func versionsOf(model, dir string) (list []version) {
	if path := modelIn(dir); path != "" {
		list = append(list, version{model: model, name: "1", path: path, files: signatureOf(path, ownDirectory)})
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		path := modelIn(filepath.Join(dir, entry.Name()))
		if err == nil && number > 0 && strconv.Itoa(number) == entry.Name() && path != "" { // no leading zeros or sign
			list = append(list, version{model: model, name: entry.Name(), path: path,
				files: signatureOf(path, ownDirectory)})
		}
	}
	return list
}

// modelIn returns the path of the file model.onnx or model.json in a directory; "" if there is none.
func modelIn(dir string) string {
	for _, ext := range extensions {
		path := filepath.Join(dir, "model"+ext)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// directoryUse says whether the directory of a model has other models, too.
type directoryUse int

const (
	ownDirectory    directoryUse = iota // all regular files of the directory are files of the model
	sharedDirectory                     // only files whose names begin with the name of the model are its files
)

// signatureOf returns the signature of the model at path. In a shared directory, the files of a model are for example
// net.onnx, net.onnx.data and net.safetensors.
func signatureOf(path string, use directoryUse) signature {
	var text strings.Builder
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if use == sharedDirectory && !strings.HasPrefix(entry.Name(), baseName(path)+".") {
			continue
		}
		info, err := os.Stat(filepath.Join(filepath.Dir(path), entry.Name()))
		if err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(&text, "%s %d %s\n", entry.Name(), info.Size(), info.ModTime().Format(time.RFC3339Nano))
		}
	}
	return signature(text.String())
}
