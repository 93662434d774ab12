"""From rows that users push to columns of a stream: conversion, watermarks, rejected rows."""
