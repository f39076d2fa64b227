package tile

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/internal/machine"
)

// TestKeyHasAllFields changes each field of a spec, and of the elements of its lists: the keys must differ.
func TestKeyHasAllFields(t *testing.T) {
	spec := func() *Spec {
		return &Spec{In: []int{1, 2}, Out: []int{3}, Runs: make([]Run, 1), Loops: make([]Loop, 1),
			Epilogue: make([]EpilogueStep, 1), Prefetch: make([]Prefetch, 1)}
	}
	plain := spec()
	seen := map[string]string{
		plain.key(machine.AVX2):   "the spec",
		plain.key(machine.AVX512): "another instruction set",
	}
	assert.Equal(t, plain.key(machine.AVX2), spec().key(machine.AVX2))
	assert.Len(t, seen, 2)
	differs := func(s *Spec, what string) {
		key := s.key(machine.AVX2)
		assert.Empty(t, seen[key], "%s has the key of another: %s", what, key)
		seen[key] = what
	}
	changed := 0
	var walk func(s *Spec, v reflect.Value, path string)
	walk = func(s *Spec, v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(s, v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		case reflect.Slice:
			was := reflect.ValueOf(v.Interface())
			v.Set(reflect.Append(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 3), was),
				reflect.Zero(v.Type().Elem())))
			differs(s, path+" with one more")
			v.Set(was)
			for i := range v.Len() {
				walk(s, v.Index(i), path+"[]")
			}
			return
		}
		was := reflect.ValueOf(v.Interface())
		switch {
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.CanInt():
			v.SetInt(v.Int() + 7)
		case v.CanUint():
			v.SetUint(v.Uint() + 7)
		default:
			v.SetFloat(v.Float() + 7)
		}
		differs(s, path)
		v.Set(was)
		changed++
	}
	s := spec()
	walk(s, reflect.ValueOf(s).Elem(), "Spec")
	assert.Equal(t, plain, s)
	assert.Greater(t, changed, 25)
	s.Lanes = Dynamic
	differs(s, "dynamic lanes")
}
