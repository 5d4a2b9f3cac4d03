// Package aws tests hpad against the fake AWS of package awstest.
package aws
