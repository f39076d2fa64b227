package graphrun

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOptionsReachThePlan: each field of Options is the field of package program with the same name.
func TestOptionsReachThePlan(t *testing.T) {
	for i := range reflect.TypeFor[Options]().NumField() {
		name := reflect.TypeFor[Options]().Field(i).Name
		var options Options
		field := reflect.ValueOf(&options).Elem().Field(i)
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(7)
		case reflect.Float64:
			field.SetFloat(0.5)
		case reflect.String:
			field.SetString("cpu")
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Func:
			options.Progress = func(string) {}
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			continue // an interface
		}
		if name == "Cache" {
			options.Cache = OpenCache(t.TempDir(), CacheOptions{})
		}
		internal := reflect.ValueOf(options.internal())
		assert.False(t, internal.FieldByName(name).IsZero(), name)
		assert.Equal(t, reflect.TypeFor[Options]().NumField(), internal.NumField())
	}
}
